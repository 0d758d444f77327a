# 安装GPU Operator
helm repo add nvidia https://helm.ngc.nvidia.com/nvidia
helm repo update

# 安装GPU Operator
helm install --wait gpu-operator nvidia/gpu-operator \
  --namespace gpu-operator \
  --create-namespace

# 验证安装
kubectl get pods -n gpu-operator

# 检查GPU节点
kubectl get nodes -o json | jq '.items[] | select(.status.capacity."nvidia.com/gpu")'
