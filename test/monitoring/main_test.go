// Package monitoring fires the alerts of manifests/monitoring: a real Prometheus reads the programs of a sandbox with the
// rights that we ship, in situations that are made on purpose, and in one in which all is well. Only the cards are made up:
// there are none here to measure.
package monitoring

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// world is what all tests share.
type world struct {
	cluster    *sandbox.Sandbox
	client     kubernetes.Interface
	scheduler  *sandbox.Process
	ledger     *sandbox.Ledger
	prometheus *prometheus
	// slow has an extender of the scheduler take its time with each attempt.
	slow atomic.Bool
	// cards are what the exporters of cards show.
	cards     atomic.Value
	extender  *httptest.Server
	exporters *httptest.Server
	config    string
}

var shared world

// The pools, and how many nodes of 8 GPUs each has.
var poolNodes = map[string]int{"full": 1, "frag": 2, "idle": 1, "sick": 2, "gang": 3}

const (
	busyCard = `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 80
gpu_agent_pod_device_info{namespace="default",pod="p",container="c",resource="nvidia.com/gpu",UUID="GPU-1"} 1
`
	idleCard = `DCGM_FI_DEV_GPU_UTIL{UUID="GPU-1"} 0
gpu_agent_pod_device_info{namespace="default",pod="p",container="c",resource="nvidia.com/gpu",UUID="GPU-1"} 1
`
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run()) // without what needs Prometheus
	}
	var fleet sandbox.Fleet
	for name, nodes := range poolNodes {
		group := clustertest.NodesWith8GPUs(name, nodes)
		group.Pool, group.Zone = name, name
		fleet.Groups = append(fleet.Groups, group)
	}
	w := &shared
	w.cards.Store(busyCard)
	w.exporters = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { fmt.Fprint(out, w.cards.Load()) }))
	w.extender = httptest.NewServer(http.HandlerFunc(w.extend))
	options := sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet, Restart: true}
	os.Exit(sandboxtest.Main(m, options, w.prepare))
}

func (w *world) prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	w.cluster = s
	if w.client, err = kubernetes.NewForConfig(s.RESTConfig()); err != nil {
		return err
	}
	for _, install := range []func(context.Context) error{s.InstallScheduler, s.InstallController, s.InstallLedger, s.InstallServer} {
		if err := install(ctx); err != nil {
			return err
		}
	}
	token, err := sandboxtest.MetricsToken(ctx, s, w.client)
	if err != nil {
		return err
	}
	if w.prometheus, err = newPrometheus(s, token); err != nil {
		return err
	}
	return w.start(ctx)
}

// start starts the programs, and has Prometheus look at them.
func (w *world) start(ctx context.Context) (err error) {
	shipped, err := manifests.FS.ReadFile("scheduler/scheduler-config.yaml")
	if err != nil {
		return err
	}
	w.config = filepath.Join(w.cluster.Dir(), "extended.yaml")
	extended := fmt.Sprintf("%s\nextenders: [{urlPrefix: %q, filterVerb: filter, nodeCacheCapable: true, httpTimeout: 10s}]\n", shipped, w.extender.URL)
	if err := os.WriteFile(w.config, []byte(extended), 0o600); err != nil {
		return err
	}
	if w.scheduler, err = w.cluster.StartScheduler(ctx, sandbox.SchedulerOptions{ConfigPath: w.config}); err != nil {
		return err
	}
	port, err := sandbox.FreePort("127.0.0.1")
	if err != nil {
		return err
	}
	controller := sandbox.ControllerOptions{Args: []string{fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", port)}}
	if _, err := w.cluster.StartController(ctx, controller); err != nil {
		return err
	}
	if w.ledger, err = w.cluster.StartLedger(ctx, sandbox.LedgerOptions{}); err != nil {
		return err
	}
	server, err := w.cluster.StartServer(ctx, sandbox.ServerOptions{})
	if err != nil {
		return err
	}
	w.prometheus.target("gpu-scheduler", w.scheduler.Port())
	w.prometheus.target("gpu-controller", port)
	w.prometheus.target("gpu-ledger", w.ledger.Port())
	w.prometheus.target("gpuctl-server", server.Port())
	return w.prometheus.start(ctx, strings.TrimPrefix(w.exporters.URL, "http://"))
}
