#!/usr/bin/env bash
# `tracelens fix` on public commits before a known speed-up, beside the commits themselves (docs/fix.md).
#
#   bash tests/fixing/public_commits.sh prepare CLONES DIR     clones are CLONES/<owner>+<name>, all or some of them; DIR gets what is run
#   bash tests/fixing/public_commits.sh run|fixes|times DIR OUT NAME…      NAME: peft, minimind, diffusers, yolo, style, nerf, or
#            the folder of DIR that holds before/train.py and after/train.py; BUDGET in seconds, ROUNDS and TURNS of times
#
# No code of these projects is here: `prepare` takes both versions out of the clones, puts random data in the place of downloads,
# and changes names that newer packages dropped, in both versions alike; DIR can then go to another machine. `run` makes
# the models that stand in for downloads; it needs a GPU, transformers, peft, accelerate, torchvision and tensorboard,
# nerf also imageio, tqdm and configargparse.
# OUT/NAME holds what `fix` said, its diff, and the times of before, after and fixed by turns.
set -eu

versions() { # CLONE COMMIT NAME PATH…: both versions
  local clone=$1 commit=$2 name=$3
  shift 3
  [ -d "$clone" ] || return 0
  for version in before after; do
    mkdir -p "$dir/$name/$version"
    git -C "$clone" archive "$([ $version = before ] && echo "$commit~1" || echo "$commit")" "$@" | tar -x -C "$dir/$name/$version"
  done
}

prepare() {
  clones=$(cd "$1" && pwd) dir=$(mkdir -p "$2" && cd "$2" && pwd)
  versions "$clones/huggingface+peft" 90d3fc05d peft method_comparison/MetaMathQA
  versions "$clones/jingyaogong+minimind" 7eae14f minimind trainer model dataset
  versions "$clones/huggingface+diffusers" f7278638e4 diffusers src/diffusers examples/unconditional_image_generation
  versions "$clones/rosinality+style-based-gan-pytorch" 038db65 style train.py dataset.py model.py
  versions "$clones/eriklindernoren+PyTorch-YOLOv3" fa1322a yolo train.py models.py utils config data/coco.names
  versions "$clones/yenchenlin+nerf-pytorch" 1f06483 nerf run_nerf.py run_nerf_helpers.py load_llff.py load_deepvoxels.py load_blender.py load_LINEMOD.py configs
  mkdir -p "$dir/stand/datasets/utils" "$dir/stand_yolo" "$dir/stand_nerf/matplotlib" "$dir/llama"
  [ ! -d "$dir/minimind" ] || cp "$dir"/minimind/before/model/tokenizer*.json "$dir/llama"
  cat >"$dir/data.py" <<'PYTHON'
"""Rows of random tokens, as many as the data set has, in the place of the download."""

import random


class Rows:
    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, part):
        ids = []
        for index in range(*part.indices(self.count)):
            drawn = random.Random(self.seed * 1_000_003 + index)
            ids.append([drawn.randrange(10, 6000) for _ in range(drawn.randrange(120, 360))])
        return {"input_ids": ids, "attention_mask": [[1] * len(one) for one in ids], "response": [""] * len(ids)}


def get_train_valid_test_datasets(*, tokenizer, query_template, print_fn):
    return Rows(370_000, 1), Rows(50, 2), Rows(50, 3)
PYTHON
  cat >"$dir/dataset.py" <<'PYTHON'
"""Random images in the place of the lmdb data set."""

import numpy as np
from PIL import Image
from torch.utils.data import Dataset


class MultiResolutionDataset(Dataset):
    def __init__(self, path, transform, resolution=8):
        self.resolution = resolution
        self.transform = transform

    def __len__(self):
        return 70_000

    def __getitem__(self, index):
        drawn = np.random.default_rng(index)
        pixels = drawn.integers(0, 256, (self.resolution, self.resolution, 3), dtype=np.uint8)
        return self.transform(Image.fromarray(pixels))
PYTHON
  cat >"$dir/stand/datasets/__init__.py" <<'PYTHON'
"""Random images in the place of the hub's data sets."""
import numpy as np
from PIL import Image
from . import utils

__version__ = "2.10.0"


class Images:
    def __init__(self, count):
        self.count, self.transform = count, None

    def __len__(self):
        return self.count

    def set_transform(self, transform):
        self.transform = transform

    def __getitem__(self, index):
        drawn = np.random.default_rng(int(index))
        image = Image.fromarray(drawn.integers(0, 256, (72, 72, 3), dtype=np.uint8))
        return {name: values[0] for name, values in self.transform({"image": [image]}).items()}


def load_dataset(*_, **__):
    return Images(8192)
PYTHON
  echo "from . import logging" >"$dir/stand/datasets/utils/__init__.py"
  cat >"$dir/stand/datasets/utils/logging.py" <<'PYTHON'
def set_verbosity_warning():
    pass


def set_verbosity_error():
    pass
PYTHON
  cat >"$dir/stand_yolo/lycon.py" <<'PYTHON'
"""Images read and resized with Pillow, in the place of a package that is no longer built."""
import numpy as np
from PIL import Image


class Interpolation:
    NEAREST = Image.NEAREST


def load(path):
    return np.array(Image.open(path))


def resize(image, height, width, interpolation=Image.BILINEAR):
    return np.array(Image.fromarray(image).resize((width, height), interpolation))
PYTHON
  cat >"$dir/stand_yolo/tensorflow.py" <<'PYTHON'
"""Scalars written to a file, in the place of TensorFlow 1's event files."""
import struct
from pathlib import Path
from types import SimpleNamespace


class Summary:
    Value = SimpleNamespace

    def __init__(self, value):
        self.value = value


class FileWriter:
    def __init__(self, log_dir):
        Path(log_dir).mkdir(parents=True, exist_ok=True)
        self.file = (Path(log_dir) / "events").open("wb")

    def add_summary(self, summary, step):
        for one in summary.value:
            self.file.write(one.tag.encode() + struct.pack("<qf", step, one.simple_value))


summary = SimpleNamespace(FileWriter=FileWriter)
PYTHON
  cat >"$dir/stand_yolo/terminaltables.py" <<'PYTHON'
"""A table of text, in the place of the package of this name."""


class AsciiTable:
    def __init__(self, rows):
        widths = [max(len(str(row[place])) for row in rows) for place in range(len(rows[0]))]
        bar = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        lines = ["| " + " | ".join(str(cell).ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
        self.table = "\n".join([bar, lines[0], bar, *lines[1:], bar])
PYTHON
  touch "$dir/stand_nerf/matplotlib/__init__.py" "$dir/stand_nerf/matplotlib/pyplot.py"
  cat >"$dir/stand_nerf/cv2.py" <<'PYTHON'
"""Half the width and height as mean of four, in the place of OpenCV, of which nerf needs nothing else."""
import numpy as np

INTER_AREA = 3


def resize(image, size, interpolation=INTER_AREA):
    width, height = size
    assert image.shape[:2] == (2 * height, 2 * width)
    return np.mean(image.reshape(height, 2, width, 2, -1), (1, 3), dtype=image.dtype)
PYTHON
  cat >"$dir/make_coco.py" <<'PYTHON'
"""Images of random patches with as many random boxes as COCO's have, from a seed: python make_coco.py FOLDER"""
import random, sys
from pathlib import Path
import numpy as np
from PIL import Image
home = Path(sys.argv[1]) / "coco"
drawn, random_boxes = np.random.default_rng(1), random.Random(1)
for kind in ("images", "labels"):
    (home / kind).mkdir(parents=True, exist_ok=True)
for index in range(512):
    patches = Image.fromarray(drawn.integers(0, 256, (30, 40, 3), dtype=np.uint8))
    patches.resize((640, 480), Image.BICUBIC).save(home / f"images/{index}.jpg")
    boxes = [(random_boxes.randrange(80), *(random_boxes.uniform(0.3, 0.7) for _ in "xy"), *(random_boxes.uniform(0.05, 0.5) for _ in "wh")) for _ in range(random_boxes.randrange(1, 14))]
    (home / f"labels/{index}.txt").write_text("".join(" ".join(str(value) for value in box) + "\n" for box in boxes))
(home / "train.txt").write_text("".join(f"{home}/images/{index % 512}.jpg\n" for index in range(8192)))
(home / "coco.data").write_text(f"classes=80\ntrain={home}/train.txt\nvalid={home}/train.txt\nnames=data/coco.names\n")
PYTHON
  cat >"$dir/make_scene.py" <<'PYTHON'
"""Views of random patches from cameras around a point, as many pixels as nerf's Lego has, from a seed: python make_scene.py FOLDER"""
import json, random, sys
from pathlib import Path
import numpy as np
from PIL import Image
home = Path(sys.argv[1]) / "lego"
drawn, turned = np.random.default_rng(1), random.Random(1)
for kind, count in (("train", 20), ("val", 8), ("test", 8)):
    (home / kind).mkdir(parents=True, exist_ok=True)
    frames = []
    for index in range(count):
        patches = drawn.integers(0, 256, (40, 40, 4), dtype=np.uint8)
        Image.fromarray(patches).resize((800, 800), Image.BICUBIC).save(home / kind / f"r_{index}.png")
        a, b = turned.uniform(0, 2 * np.pi), turned.uniform(0.1, 1.4)
        back = np.array([np.cos(a) * np.cos(b), np.sin(a) * np.cos(b), np.sin(b)])
        side = np.array([-np.sin(a), np.cos(a), 0.0])
        pose = np.eye(4)
        pose[:3, :4] = np.stack([side, np.cross(back, side), back, 4 * back], 1)
        frames.append({"file_path": f"./{kind}/r_{index}", "transform_matrix": pose.tolist()})
    (home / f"transforms_{kind}.json").write_text(json.dumps({"camera_angle_x": 0.6911112070083618, "frames": frames}))
PYTHON
  cat >"$dir/make_inputs.py" <<'PYTHON'
"""The model that peft trains, from a seed: python make_inputs.py FOLDER WIDTH LAYERS"""
import sys
from pathlib import Path
import torch
from transformers import LlamaConfig, LlamaForCausalLM
folder, width, layers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
config = LlamaConfig(vocab_size=6400, hidden_size=width, intermediate_size=width * 8 // 3 // 64 * 64, num_hidden_layers=layers, num_attention_heads=width // 64, num_key_value_heads=max(1, width // 256), max_position_embeddings=2048, bos_token_id=1, eos_token_id=2, pad_token_id=0)
model = LlamaForCausalLM(config).to(torch.bfloat16)
model.save_pretrained(folder / "llama")
PYTHON
  cat >"$dir/make_talks.py" <<'PYTHON'
"""Chats of random words for minimind, from a seed: python make_talks.py FOLDER"""
import json, random, sys
from pathlib import Path
for where in ("before", "after"):
    drawn = random.Random(1)
    words = ["the", "sum", "of", "two", "numbers", "is", "found", "by", "adding", "a", "model", "learns", "what", "it", "is", "shown"]
    with (Path(sys.argv[1]) / "minimind" / where / "dataset/sft.jsonl").open("w") as out:
        for _ in range(12000):
            talk = []
            for role in ("user", "assistant", "user", "assistant"):
                talk.append({"role": role, "content": " ".join(drawn.choice(words) for _ in range(drawn.randrange(10, 60)))})
            out.write(json.dumps({"conversations": talk}) + "\n")
PYTHON
  (cd "$dir" && python3 - <<'PYTHON'
"""What newer packages dropped, in both versions alike."""
import shutil
from pathlib import Path
for where in ("before", "after") if Path("diffusers").exists() else ():
    root = Path("diffusers") / where
    home = root / "run"
    if home.exists(): shutil.rmtree(home)
    home.mkdir()
    shutil.copytree(root / "src/diffusers", home / "diffusers")
    shutil.copy(root / "examples/unconditional_image_generation/train_unconditional.py", home)
    def edit(path, *pairs):
        text = (home / path).read_text()
        for old, new in pairs:
            assert old in text, (path, old)
            text = text.replace(old, new)
        (home / path).write_text(text)
    edit("train_unconditional.py", ("from huggingface_hub import HfFolder, Repository, create_repo, whoami\n", ""),
         ("        logging_dir=logging_dir,\n        project_config", "        project_dir=logging_dir,\n        project_config"))
    edit("diffusers/utils/dynamic_modules_utils.py", ("from distutils.version import StrictVersion\n", ""), ("from huggingface_hub import HfFolder, cached_download, hf_hub_download, model_info\n", "from huggingface_hub import hf_hub_download, model_info\n"))
    edit("diffusers/utils/hub_utils.py", ("from huggingface_hub import HfFolder, ModelCard, ModelCardData, whoami", "from huggingface_hub import ModelCard, ModelCardData, whoami"))
    edit("diffusers/utils/constants.py", ("from huggingface_hub.constants import HUGGINGFACE_HUB_CACHE, hf_cache_home", "from huggingface_hub.constants import HUGGINGFACE_HUB_CACHE\n\nhf_cache_home = os.path.expanduser(\"~/.cache/huggingface\")"))
    text = (home / "diffusers/utils/import_utils.py").read_text()
    at = text.index("# docstyle-ignore")
    off = "\n".join(f"{name} = False" for name in ("_flax_available", "_tf_available", "_transformers_available", "_onnx_available", "_scipy_available", "_wandb_available", "_xformers_available"))
    (home / "diffusers/utils/import_utils.py").write_text(text[:at] + off + "\n\n" + text[at:])
PYTHON
  )
  [ ! -d "$dir/peft" ] || for version in before after; do
    local home=$dir/peft/$version/method_comparison/MetaMathQA
    rm -rf "$home"/experiments/* "$home"/{results,temporary_results,cancelled_results}
    mkdir -p "$home"/{results,temporary_results,cancelled_results,experiments/lora/small}
    mv "$home/utils.py" "$home/utils.old"
    sed -e '/^import bitsandbytes$/d' -e '/^import datasets$/d' -e '/^def get_peft_branch/,/^    )$/c\def get_peft_branch() -> str:\n    return "stand-in"' "$home/utils.old" >"$home/utils.py"
    rm "$home/utils.old"
    cp "$dir/data.py" "$home"
    echo '{"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 32, "lora_alpha": 64, "lora_dropout": 0.0, "target_modules": ["q_proj", "v_proj"], "base_model_name_or_path": null, "inference_mode": false}' >"$home/experiments/lora/small/adapter_config.json"
  done
  [ ! -d "$dir/style" ] || for version in before after; do
    mkdir -p "$dir/style/$version"/{sample,checkpoint}
    cp "$dir/dataset.py" "$dir/style/$version"
    sed -i -e 's/range=(-1, 1)/value_range=(-1, 1)/' -e 's/add_(1 - decay, par2\[k\].data)/add_(par2[k].data, alpha=1 - decay)/' "$dir/style/$version/train.py"
  done
}

inputs() { # what is too large to be taken along, and where it lies on this machine
  local version
  case $1 in
    peft)
      [ -e "$dir/llama/config.json" ] || python3 "$dir/make_inputs.py" "$dir" "${WIDTH:-2048}" "${LAYERS:-8}"
      for version in before after; do
        echo "{\"model_id\": \"$dir/llama\", \"eval_steps\": 5000, \"max_steps\": 5000}" \
          >"$dir/peft/$version/method_comparison/MetaMathQA/experiments/lora/small/training_params.json"
      done
      ;;
    minimind) python3 "$dir/make_talks.py" "$dir" ;;
    yolo) [ -e "$dir/coco/coco.data" ] || python3 "$dir/make_coco.py" "$dir" ;;
    nerf) [ -e "$dir/lego/transforms_test.json" ] || python3 "$dir/make_scene.py" "$dir" ;;
  esac
}

run() { # DIR OUT NAME…: both of what follows
  fixes "$@"
  times "$@"
}

fixes() { # DIR OUT NAME…: what `fix` makes of the version before
  places "$1" "$2"
  shift 2
  for name in "$@"; do (scene "$name" && fixed); done
}

times() { # DIR OUT NAME…: before, after and what `fix` made, ROUNDS times in fresh processes, TURNS turns in each
  places "$1" "$2"
  shift 2
  for name in "$@"; do (scene "$name" && timed); done
}

places() {
  here=$PWD dir=$(cd "$1" && pwd) out=$(mkdir -p "$2" && cd "$2" && pwd)
  export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1
}

scene() { # NAME: how it is started
  name=$1 steps=100 folder=. script=train.py words=
  case $name in
    peft) folder=method_comparison/MetaMathQA script=run.py words="experiments/lora/small" steps=30 ;;
    minimind) folder=trainer script=train_full_sft.py words="--data_path ../dataset/sft.jsonl --from_weight none --save_interval 100000 --log_interval 100000" ;;
    diffusers) folder=run script=train_unconditional.py words="--dataset_name x --resolution 64 --center_crop --train_batch_size 16 --num_epochs 100 --gradient_accumulation_steps 1 --use_ema --learning_rate 1e-4 --lr_warmup_steps 500 --mixed_precision no --output_dir o --checkpointing_steps 1000000" steps=40 ;;
    yolo) words="--data_config_path $dir/coco/coco.data" steps=40 ;;
    style) words="x --sched --mixing" ;;
    nerf) script=run_nerf.py words="--config configs/lego.txt --datadir $dir/lego" ;;
  esac
  stand=$dir/stand
  [ ! -d "${stand}_$name" ] || stand=${stand}_$name
  export PYTHONPATH=$stand:$here${PYTHONPATH:+:$PYTHONPATH}
  inputs "$name"
  mkdir -p "$out/$name"
}

fixed() {
  local budget=${BUDGET:-600}
  rm -rf "${dir:?}/$name/fixed"
  cp -r "$dir/$name/before" "$dir/$name/fixed"
  # shellcheck disable=SC2086
  (cd "$dir/$name/fixed/$folder" && timeout $((budget + 30)) python3 -m tracelens fix "$script" --yes --format json --budget "${budget}s" -- $words \
    >"$out/$name/answer.json" 2>"$out/$name/said.txt" && echo 0 || echo $?) | tee "$out/$name/exit.txt"
  diff -ru "$dir/$name/before" "$dir/$name/fixed" -x tracelens-runs -x __pycache__ -x o -x logs -x by_turns.txt >"$out/$name/applied.diff" || true
}

timed() {
  local versions=() version
  for version in before after fixed; do
    [ ! -d "$dir/$name/$version" ] || versions+=("$version=$dir/$name/$version/$folder")
  done
  for _ in $(seq "${ROUNDS:-2}"); do
    # shellcheck disable=SC2086
    timeout 200 python3 "$here/tests/fixing/by_turns.py" $steps "${TURNS:-3}" "${versions[@]}" -- "$script" $words | tee -a "$out/$name/timed.txt" || true
  done
}

"$@"
