// Module monitoring pins what tests the rules of manifests/monitoring: promtool judges them, and a real Prometheus fires
// them. Its libraries are newer than ours, hence a module of its own. It is built with the tag remove_all_sd, without the
// clients of clouds, not all of whose modules are served: go mod tidy, which knows no tags, asks for them in vain.
module g8s.host/gpu-scheduler/hack/tools/monitoring

go 1.26.0

require github.com/prometheus/prometheus v0.313.1
