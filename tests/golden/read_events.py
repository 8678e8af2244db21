"""What real TensorBoard reads from the event files of a folder: a line tag,step,value for each.

    python tests/golden/read_events.py FOLDER             (needs tensorboard)

Steps before a restart that were done again are left out, as TensorBoard leaves them out. A text is
printed as it is, of an image its size. tests/test_lm_metrics.c runs this when the environment has
POSENC_TENSORBOARD_PYTHON=/path/of/python.
"""
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray

read = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0, "tensors": 0})
read.Reload()
tags = read.Tags()
for tag in sorted(tags["scalars"]):
    for event in read.Scalars(tag):
        print(f"{tag},{event.step},{event.value!r}")
for tag in sorted(tags["images"]):
    for event in read.Images(tag):
        size = f"{event.width}x{event.height} of {len(event.encoded_image_string)}"
        print(f"{tag},{event.step},{size}")
for tag in sorted(tags["tensors"]):
    for event in read.Tensors(tag):
        print(f"{tag},{event.step},{make_ndarray(event.tensor_proto)[0].decode()}")
