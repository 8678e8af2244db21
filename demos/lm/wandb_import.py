"""Hands a run's metrics.jsonl to Weights & Biases (needs `pip install wandb`; works offline too).

    python demos/lm/wandb_import.py results/lm/nano_rope_6M_s1 --project posenc --mode offline
    python demos/lm/wandb_import.py results/lm/new -- build/lm train --size nano      (follows it live)

{id} in FOLDER or in the command becomes W&B's id of the run, as demos/lm/sweep.yaml needs it.
"""
import argparse, json, os, signal, subprocess, sys, time
import wandb

own, command = sys.argv[1:], []
if "--" in own:
    own, command = own[:own.index("--")], own[own.index("--") + 1:]
args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
args.add_argument("folder", metavar="FOLDER")
args.add_argument("--project", default="posenc")
args.add_argument("--mode", choices=["online", "offline", "disabled"], default=os.environ.get("WANDB_MODE"))
args = args.parse_args(own)

run = wandb.init(project=args.project, mode=args.mode, name=None if "{id}" in args.folder else
                 os.path.basename(os.path.normpath(args.folder)))
folder = args.folder.replace("{id}", run.id)
run.define_metric("tokens")
run.define_metric("*", step_metric="tokens")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))          # W&B ends a run of a sweep early
child = subprocess.Popen([word.replace("{id}", run.id) for word in command]) if command else None
path, file, rest = os.path.join(folder, "metrics.jsonl"), None, ""
try:
    while True:
        done = child is None or child.poll() is not None
        if file is None and (done or os.path.exists(path)):
            file = open(path, encoding="utf-8")
        while file and (piece := file.readline()):
            rest += piece
            if rest.endswith("\n"):                              # else half a line: its end comes later
                run.log(json.loads(rest))
                rest = ""
        if done:
            break
        time.sleep(1)
finally:
    if child and child.poll() is None:
        child.terminate()                                        # it saves a checkpoint and stops
        child.wait()
config = os.path.join(folder, "config.yaml")
if os.path.exists(config):
    pairs = (line.split(":", 1) for line in open(config, encoding="utf-8") if ":" in line and line[0] not in "# ")
    run.config.update({key.strip(): value.strip() for key, value in pairs}, allow_val_change=True)
run.finish(exit_code=child.returncode if child else 0)
sys.exit(child.returncode if child else 0)
