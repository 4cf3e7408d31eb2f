# ResNet-50 under torch's DataParallel on 1, 2 and 4 H200, from the raw figures of docs/evidence/h200: compute and
# communication of an epoch of ImageNet, by subtracting the step of one GPU with the same batch.
here=$(dirname "$0")
scalecurve import "$here/dataparallel.csv" --into results/dataparallel
scalecurve report results/dataparallel --dataset-samples 1281167 --epochs 1 --per-worker-hour 0.90
