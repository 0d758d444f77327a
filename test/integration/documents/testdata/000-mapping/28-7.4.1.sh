kubectl label nodes node1 g8s.host/pool=train-pool g8s.host/gpu-type=A100-100G
kubectl label nodes node2 g8s.host/pool=train-pool g8s.host/gpu-type=A800-20G
