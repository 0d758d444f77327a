gpuctl get pools
