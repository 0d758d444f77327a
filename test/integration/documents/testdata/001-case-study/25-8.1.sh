#!/bin/bash
# gpu-health-check.sh

# 检查 GPU 节点状态
check_gpu_nodes() {
    echo "检查 GPU 节点状态..."
    kubectl get nodes -l accelerator=nvidia -o wide
    
    # 检查 GPU 资源
    kubectl describe nodes -l accelerator=nvidia | grep -A 5 "nvidia.com/gpu"
}

# 检查 GPU Pod 状态
check_gpu_pods() {
    echo "检查 GPU Pod 状态..."
    kubectl get pods --all-namespaces -o wide | grep -E "(gpu|nvidia)"
}

# 检查 Device Plugin 状态
check_device_plugin() {
    echo "检查 NVIDIA Device Plugin 状态..."
    kubectl get pods -n kube-system -l name=nvidia-device-plugin-ds
}

# 主函数
main() {
    check_gpu_nodes
    check_gpu_pods
    check_device_plugin
}

main
