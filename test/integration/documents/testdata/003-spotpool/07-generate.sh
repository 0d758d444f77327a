make generate
make manifests
