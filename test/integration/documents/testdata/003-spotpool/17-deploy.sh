# 構(gòu)建鏡像
make docker-build docker-push IMG=<your-registry>/spotpool:v1
# 部署到集群
make deploy IMG=<your-registry>/spotpool:v1
