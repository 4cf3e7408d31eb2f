#!/bin/sh
# The small form, from the digits inside scikit-learn to the report: small.sh [FOLDER]. Two cores, no download.
set -e
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-results/transfer-learning-small}
mkdir -p "$folder"
cd "$folder"
python "$here/digits_folders.py" .
scalecurve run --quiet "$here/small-pretrain.yaml" --bundle pretrain
scalecurve run --quiet "$here/experiment.yaml" --overlay "$here/small.yaml" --bundle transfer
scalecurve training transfer
