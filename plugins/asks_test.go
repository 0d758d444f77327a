package plugins_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	inttree "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/queuesort"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// TestAProfileAsksTheLedgerThatItNames, when the scheduler starts and beside it: one that never answers holds nothing up.
func TestAProfileAsksTheLedgerThatItNames(t *testing.T) {
	metrics.Register()
	asked, done := make(chan string, 1), make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Query().Get("limit")
		<-done
	}))
	defer server.Close()
	defer close(done)
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	only := func(name string) config.PluginSet { return config.PluginSet{Enabled: []config.Plugin{{Name: name}}} }
	profile := &config.KubeSchedulerProfile{
		SchedulerName: names.SchedulerName,
		Plugins:       &config.Plugins{QueueSort: only(queuesort.Name), Filter: only(gpufilter.Name), Bind: only(defaultbinder.Name)},
		PluginConfig:  []config.PluginConfig{{Name: gpufilter.Name, Args: &configv1.GPUFilterArgs{PromiseLedger: server.URL, PromiseLedgerCA: authority}}},
	}
	registry := plugins.Registry(plugins.Dependencies{})
	if err := registry.Merge(inttree.NewInTreeRegistry()); err != nil {
		t.Fatal(err)
	}
	_, err := runtime.NewFramework(t.Context(), registry, profile,
		runtime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0)),
		runtime.WithKubeConfig(&rest.Config{Host: "https://apiserver.invalid", BearerToken: "token"}))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case limit := <-asked:
		if limit != "5000" {
			t.Errorf("it asks for %s runs", limit)
		}
	case <-time.After(10 * time.Second):
		t.Error("nobody asks")
	}
}
