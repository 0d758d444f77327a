# 安裝 CRD
make install
# 運行 controller
make run
