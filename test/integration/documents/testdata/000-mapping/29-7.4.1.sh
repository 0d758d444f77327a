gpuctl delete -f pool.yaml
