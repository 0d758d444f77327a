// Package agent is the node's side of the scheduler. It reports the GPUs of the node and their health, and ensures that each container gets the GPUs
// that the scheduler chose for its pod, or does not start.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/kubelet"
	"g8s.host/gpu-scheduler/pkg/agent/procs"
	"g8s.host/gpu-scheduler/pkg/agent/runtime"
)

// sweepInterval is the interval at which specs of ended pods are removed.
const sweepInterval = 10 * time.Second

// MaxSlotsPerGPU bounds [Options.SlotsPerGPU]: kubelet keeps a device for each slot.
const MaxSlotsPerGPU = 256

// Mode is what an agent does.
type Mode string

const (
	// Serve gives containers the GPUs that the scheduler chose.
	Serve Mode = "serve"
	// Report reports GPUs, their links and their health. Another program allocates them, such as NVIDIA's device plugin or driver for claims.
	Report Mode = "report"
)

// alignmentInterval is the interval at which kubelet's settings are read: they change with a restart of kubelet.
const alignmentInterval = 20 * time.Second

// Options are what an agent is started with.
type Options struct {
	NodeName string
	// KubeletDir is kubelet's folder, /var/lib/kubelet.
	KubeletDir string
	// CDIDir is the folder of CDI specs that the runtime watches, /var/run/cdi.
	CDIDir string
	// RuntimeEndpoint is the runtime's socket, unix:///run/containerd/containerd.sock.
	RuntimeEndpoint string
	Library         hardware.Library
	// SlotsPerGPU is the maximum number of containers that share a GPU, on nodes with sharing.
	SlotsPerGPU int
	Unassigned  binding.Policy
	// Mode is whether the agent also allocates GPUs.
	Mode Mode
	// MPS enforces the shares of containers, if the node has it.
	MPS MPS
	// Overruns is the policy for pods that use more of a GPU than their share.
	Overruns OverrunPolicy
	// HealthyAfter is how long a GPU must be healthy before it is allocated again.
	HealthyAfter time.Duration
	// PodResourcesSocket is where kubelet's PodResources are served with GPUs in the place of slots, "" for nowhere.
	PodResourcesSocket string
	// MetricsAddress is where /metrics and /healthz are served, "" for nowhere.
	MetricsAddress string
	// InterruptionURL is where the machine's cloud announces that it takes the machine back, "" for none.
	InterruptionURL string
	Log             *slog.Logger
}

// Run is the agent. It ends when ctx does, or with the error of something that it requires. It reports liveness from the beginning, also while it
// waits for another agent to end.
func Run(ctx context.Context, config *rest.Config, o *Options) error {
	metrics := NewMetrics()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return metrics.listenAndServe(ctx, o.MetricsAddress) })
	group.Go(func() error { return runInTurn(ctx, config, o, metrics) })
	return group.Wait()
}

// runInTurn runs the agent once its turn has come. Where it follows another one that hands over, it registers with kubelet before that has ended, and
// does the rest afterwards.
func runInTurn(ctx context.Context, config *rest.Config, o *Options, metrics *Metrics) error {
	for _, dir := range []string{o.CDIDir, filepath.Join(o.KubeletDir, "device-plugins")} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("making folders: %w", err)
		}
	}
	turn, err := acquireTurn(ctx, o.CDIDir, o.Log)
	if err != nil {
		return err
	}
	defer turn.release()
	var lock *lock
	if !turn.handedOver {
		if lock, err = acquireNodeLock(ctx, o.CDIDir, o.Log); err != nil {
			return err
		}
	}
	a, err := newAgent(config, o, metrics)
	if err != nil {
		return err
	}
	a.turn, a.lock = turn, lock
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() {
		turn.handOver(successorTimeout)
		stop()
	})()
	return a.runComponents(serving)
}

// agent is the parts, put together.
type agent struct {
	options *Options
	turn    *turn
	// lock is nil while the agent before this one still has it.
	lock      *lock
	pods      *Pods
	gpus      *GPUMonitor
	fitness   *Fitness
	publisher *Publisher
	runtime   *runtime.Client
	starter   *Starter
	plugins   *plugins
	watcher   *usageWatcher
	auditor   *auditor
	lister    *kubelet.Lister
	events    record.EventBroadcaster
	// resources is nil where they are not served.
	resources *kubelet.PodResources
	// interruptions is nil if there is no cloud to poll.
	interruptions *interruptionWatcher
}

func newAgent(config *rest.Config, o *Options, metrics *Metrics) (*agent, error) {
	meta, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	client, err := newAPIServer(config)
	if err != nil {
		return nil, err
	}
	a := &agent{options: o, fitness: newFitness(o.Mode, o.Log)}
	a.gpus = newGPUMonitor(o, metrics)
	if a.pods, err = NewPods(meta, o.NodeName); err != nil {
		return nil, err
	}
	if a.runtime, err = runtime.New(o.RuntimeEndpoint); err != nil {
		return nil, err
	}
	if a.publisher, err = newPublisher(client, o, a.gpus, a.fitness, metrics); err != nil {
		return nil, err
	}
	a.starter = &Starter{
		DevicePlugins: filepath.Join(o.KubeletDir, "device-plugins"), Folder: cdi.Folder{Path: o.CDIDir}, Runtime: a.runtime, Pods: a.pods,
		GPUs: a.gpus, Fitness: a.fitness, MPS: o.MPS, Unassigned: o.Unassigned, Log: o.Log, Observe: metrics.observeStart,
		Alone: make(chan struct{}),
	}
	if a.starter.WasShared() {
		a.gpus.SetSlotsPerGPU(o.SlotsPerGPU)
	}
	if a.lister, err = kubelet.NewLister(filepath.Join(o.KubeletDir, "pod-resources", "kubelet.sock")); err != nil {
		return nil, err
	}
	a.plugins = &plugins{offered: a.lister.OfferedDevices, starter: a.starter, gpus: a.gpus, fitness: a.fitness, metrics: metrics, log: o.Log, changed: make(chan struct{}), unregistered: map[string]bool{}}
	if o.PodResourcesSocket != "" && o.Mode != Report {
		a.resources = a.podResources(o)
	}
	a.events = record.NewBroadcaster()
	a.events.StartRecordingToSink(client)
	recorder := a.events.NewRecorder(client.scheme, corev1.EventSource{Component: "gpu-agent", Host: o.NodeName})
	a.watcher = newUsageWatcher(o, a.starter.Folder, recorder, metrics)
	a.interruptions = newInterruptionWatcher(o, client)
	a.auditor = &auditor{starter: a.starter, kubelet: a.lister, events: recorder, metrics: metrics, log: o.Log}
	return a, nil
}

// runComponents runs what may run beside the agent before this one, and then the rest.
func (a *agent) runComponents(ctx context.Context) error {
	defer a.events.Shutdown()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.pods.Run(ctx) })
	group.Go(func() error { return a.gpus.Run(ctx) })
	if a.options.Mode == Report {
		a.turn.recordRegistered() // there is nothing to register
		group.Go(func() error { return a.fitness.Run(ctx, func(context.Context) (string, error) { return "", nil }) })
	} else {
		group.Go(func() error { return a.fitness.Run(ctx, a.runtime.UnfitReason) })
		group.Go(func() error { return a.plugins.runPlugins(ctx, a.turn.recordRegistered) })
		group.Go(func() error { return a.watchAlignment(ctx) })
	}
	group.Go(func() error { return a.runAlone(ctx) })
	err := group.Wait()
	if a.lock != nil {
		a.lock.releaseLock()
	}
	return errors.Join(err, a.runtime.Close(), a.lister.Close())
}

// runAlone runs what must not run twice on a node, since it writes the records, the node or events, or ends processes. The starts of containers wait
// for it.
func (a *agent) runAlone(ctx context.Context) error {
	if a.lock == nil {
		lock, err := acquireNodeLock(ctx, a.options.CDIDir, a.options.Log)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		a.lock = lock
	}
	if err := a.starter.Folder.SweepTemporary(); err != nil {
		return fmt.Errorf("removing what an agent left before: %w", err)
	}
	close(a.starter.Alone)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.lock.watchFolder(ctx) })
	group.Go(func() error { return a.publisher.Run(ctx) })
	if a.options.Mode != Report {
		group.Go(func() error { return a.starter.sweepUntil(ctx) })
		group.Go(func() error { return a.watcher.runLoop(ctx) })
		group.Go(func() error { return a.auditor.runLoop(ctx) })
	}
	if a.resources != nil {
		group.Go(func() error { return a.resources.Run(ctx) })
	}
	if a.interruptions != nil {
		group.Go(func() error { return a.interruptions.runLoop(ctx) })
	}
	return group.Wait()
}

// watchAlignment reads kubelet's Topology Manager policy again and again. The last one that could be read counts.
func (a *agent) watchAlignment(ctx context.Context) error {
	for {
		if policy, err := kubelet.ReadTopologyPolicy(procs.Root, a.options.NodeName); err != nil {
			a.options.Log.Info("Reading kubelet's Topology Manager policy", "error", err)
		} else {
			a.fitness.setAlignment(policy)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(alignmentInterval):
		}
	}
}

func (s *Starter) sweepUntil(ctx context.Context) error {
	for {
		if err := s.SweepEnded(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("Removing specs of pods that have ended", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepInterval):
		}
	}
}
