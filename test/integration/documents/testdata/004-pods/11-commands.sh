# 运行 Pod
kubectl run nginx --image=nginx
# 查看 Pod 详细信息
kubectl describe pod nginx
# 查看 Pod 日志
kubectl logs nginx
# 进入 Pod 容器
kubectl exec -it nginx -- /bin/bash
# 删除 Pod
kubectl delete pod nginx
# 检查节点 GPU 资源
kubectl describe nodes | grep -i nvidia
# 检查 GPU 使用情况
kubectl exec -it <gpu-pod> -- nvidia-smi
