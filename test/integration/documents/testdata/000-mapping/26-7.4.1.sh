gpuctl create -f pool.yaml
