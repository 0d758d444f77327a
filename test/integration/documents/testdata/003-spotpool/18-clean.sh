# 刪除 operator
make undeploy
# 刪除 CRD
make uninstall
