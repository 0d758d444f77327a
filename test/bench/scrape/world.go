package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/bench/series"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

const (
	// writers is how many jobs are created at the same time.
	writers = 16
	// patience is how long the cluster may take to be as it is measured.
	patience = 10 * time.Minute
)

// program is one that Prometheus looks at.
type program struct {
	// monitor is what its monitor is called; name is its own, where there are two.
	monitor, name string
	pid, port     int
	scraped, kept series.Weight
	perScrape     time.Duration // of its CPU
}

// world is the cluster that is measured.
type world struct {
	options
	cluster  *sandbox.Sandbox
	client   kubernetes.Interface
	token    string
	programs []*program
	// perRound is the CPU time that Prometheus needs to look at all programs once.
	perRound time.Duration
}

func newWorld(ctx context.Context, o options, progress io.Writer) (*world, error) {
	fleet := sandbox.Fleet{}
	for i := range o.pools {
		name := poolName(i)
		fleet.Groups = append(fleet.Groups, sandbox.NodeGroup{
			NamePrefix: name, Pool: name, Count: (o.nodes + i) / o.pools, GPUsPerNode: 8, GPUType: []string{"A100-80G", "H100-80G", "L40S"}[i%3],
			GPUMemory: resource.MustParse("80Gi"), Interconnect: "nvlink", CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"),
		})
	}
	cluster, err := sandbox.Start(ctx, sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet, Progress: progress})
	if err != nil {
		return nil, err
	}
	w := &world{options: o, cluster: cluster}
	if w.client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return nil, errors.Join(err, cluster.Stop())
	}
	return w, nil
}

func poolName(i int) string { return fmt.Sprintf("pool-%02d", i) }

// furnish installs and starts the programs, and gives them what they count.
func (w *world) furnish(ctx context.Context) (err error) {
	for _, install := range []func(context.Context) error{
		w.cluster.InstallScheduler, w.cluster.InstallController, w.cluster.InstallLedger, w.cluster.InstallServer,
	} {
		if err := install(ctx); err != nil {
			return err
		}
	}
	if w.token, err = sandboxtest.MetricsToken(ctx, w.cluster, w.client); err != nil {
		return err
	}
	if err := w.start(ctx); err != nil {
		return err
	}
	if err := w.createJobs(ctx); err != nil {
		return err
	}
	return w.askServer(ctx)
}

// start starts two replicas of what leads and stands by, and one of the others.
func (w *world) start(ctx context.Context) error {
	for _, name := range []string{g8s.SchedulerName, g8s.SchedulerName + "-2"} {
		p, err := w.cluster.StartScheduler(ctx, sandbox.SchedulerOptions{Name: name, Args: []string{"-v=2"}})
		if err != nil {
			return err
		}
		w.add(g8s.SchedulerName, p, p.Port())
	}
	for _, name := range []string{sandbox.ControllerName, sandbox.ControllerName + "-2"} {
		port, err := sandbox.FreePort("127.0.0.1")
		if err != nil {
			return err
		}
		metrics := fmt.Sprintf("--metrics-bind-address=127.0.0.1:%d", port)
		p, err := w.cluster.StartController(ctx, sandbox.ControllerOptions{Name: name, Args: []string{metrics}})
		if err != nil {
			return err
		}
		w.add(sandbox.ControllerName, p, port)
	}
	server, err := w.cluster.StartServer(ctx, sandbox.ServerOptions{})
	if err != nil {
		return err
	}
	w.add(sandbox.ServerName, server.Process, server.Port())
	ledger, err := w.cluster.StartLedger(ctx, sandbox.LedgerOptions{})
	if err != nil {
		return err
	}
	w.add(sandbox.LedgerName, ledger.Process, ledger.Port())
	return nil
}

func (w *world) add(monitor string, p *sandbox.Process, port int) {
	w.programs = append(w.programs, &program{monitor: monitor, name: p.Name(), pid: p.PID(), port: port})
}

// createJobs submits the jobs as gpuctl does, and waits until those run that can.
func (w *world) createJobs(ctx context.Context) error {
	writer, err := submit.Connect(w.cluster.RESTConfig())
	if err != nil {
		return err
	}
	g, creating := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	running := 0
	for i := range w.jobs {
		gpus := 1
		if i%4 == 3 {
			gpus = 16 // a node has 8
		} else {
			running++
		}
		g.Go(func() error { return createJob(creating, writer, i, gpus, poolName(i%w.pools)) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("creating jobs: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, patience, true, func(ctx context.Context) (bool, error) {
		list, err := w.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodRunning), ResourceVersion: "0"})
		return err == nil && len(list.Items) == running, err
	})
	if err != nil {
		return fmt.Errorf("waiting for %d jobs to run: %w", running, err)
	}
	w.cluster.ReportProgress("%d jobs run and %d wait", running, w.jobs-running)
	return nil
}

func createJob(ctx context.Context, writer *submit.Client, i, gpus int, pool string) error {
	text := fmt.Sprintf("kind: training\njob: {name: job-%05d}\nenvironment: {image: busybox}\nresources: {gpu: %d, pool: %s}\n", i, gpus, pool)
	docs, diagnostics := workload.Parse("job", []byte(text))
	if len(diagnostics) > 0 {
		return fmt.Errorf("%v", diagnostics)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: metav1.NamespaceDefault})
	if err != nil {
		return err
	}
	return writer.Create(ctx, objects)
}
