# Paleo beside TensorFlow's published K80 steps of May 2017 (docs_src/performance/benchmarks.md, commit 5984ffe, AWS
# p2.8xlarge, synthetic data): *-k80.csv are 1000 * batch * workers / (images/s). The page: docs/studies/paleo-against-measurement.md
here=$(dirname "$0")
for case in inception_v3:64 resnet50:64 vgg16:32 alexnet:512; do
    scalecurve predict paleo --network ${case%:*} --device K80_GPU --link pcie3 --batch ${case#*:} --workers 1,2,4,8 \
        --measured "$here/${case%:*}-k80.csv" --per-worker-hour 0.90
done
scalecurve predict "$here/experiment.yaml" --device H200 --link nvlink4 --workers 1,2,4,8   # before it runs
