# GPU 资源查看命令
# 查看节点 GPU 资源
kubectl describe nodes | grep -A 5 "nvidia.com/gpu"

# 查看 GPU 使用情况
kubectl top nodes --selector=accelerator=nvidia

# 查看 GPU Pod 分布
kubectl get pods --all-namespaces -o wide \
  --field-selector spec.nodeName=gpu-node-1
