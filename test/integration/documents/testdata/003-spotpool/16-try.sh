# 創(chuàng)建實例
kubectl apply -f config/samples/devops.jokerbai.com_v1_spotpool.yaml
# 查看狀態(tài)
kubectl get spotpool
