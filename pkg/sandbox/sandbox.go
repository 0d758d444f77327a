package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const nameKubectl = "kubectl"

// Sandbox is a running control plane. Its methods may be called at the same time.
type Sandbox struct {
	options  Options
	dir      string
	began    time.Time
	watchdog *watchdog
	plane    *envtest.ControlPlane
	config   *rest.Config
	errs     chan error
	// kubeletPort is where the API server requests logs, ports and commands. It is chosen before any server listens there, because nodes publish it.
	// kwokPort is kwok's own.
	kubeletPort, kwokPort int

	progressMu sync.Mutex // held while writing to options.Progress
	usersMu    sync.Mutex // held while adding a user: envtest's authority numbers certificates without a lock

	mu        sync.Mutex
	processes []*Process // in the order of their start
	servers   []*http.Server

	stop    sync.Once
	stopErr error
}

// Start starts a sandbox and returns when all of it is ready. ctx bounds the start alone; call Stop to end it. On an error nothing is left behind,
// and the error includes the end of the relevant log.
func Start(ctx context.Context, o Options) (*Sandbox, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Sandbox{options: o, dir: dir, began: time.Now(), errs: make(chan error, 16)}
	if s.kubeletPort, err = FreePort("127.0.0.1"); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if s.watchdog, err = startWatchdog(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := s.startComponents(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the sandbox: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Sandbox) startComponents(ctx context.Context) error {
	if err := s.startControlPlane(ctx); err != nil {
		return err
	}
	s.ReportProgress("etcd and kube-apiserver are ready at %s", s.config.Host)
	g, ctx := errgroup.WithContext(ctx)
	if s.options.ControllerManager {
		g.Go(func() error { return s.startControllerManager(ctx) })
	}
	if s.options.Kwok {
		g.Go(func() error { return s.startKwok(ctx) })
	}
	if s.options.Fleet != nil {
		g.Go(func() error { return s.CreateFleet(ctx, *s.options.Fleet) })
	}
	return g.Wait()
}

// makeDir creates the sandbox's directory and what it holds.
func makeDir(dir string) (string, error) {
	if dir == "" {
		temp, err := os.MkdirTemp("", "gpu-sandbox-")
		if err != nil {
			return "", fmt.Errorf("creating the sandbox's directory: %w", err)
		}
		dir = temp
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("creating the sandbox's directory: %w", err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", fmt.Errorf("creating the sandbox's directory: %s is not empty", dir)
	}
	for _, sub := range []string{"bin", "certs", "etcd", "kubeconfigs", "logs", "policy", "run", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return "", fmt.Errorf("creating the sandbox's directory: %w", err)
		}
	}
	return dir, nil
}

// Stop ends all processes and removes the directory. It may be called more than once.
func (s *Sandbox) Stop() error {
	s.stop.Do(func() { s.stopErr = s.stopAll() })
	return s.stopErr
}

func (s *Sandbox) stopAll() error {
	var g errgroup.Group
	for _, p := range s.Processes() {
		if p.name != nameEtcd && p.name != nameAPIServer {
			g.Go(p.Stop)
		}
	}
	err := errors.Join(g.Wait(), s.closeServers(), s.stopControlPlane(), s.watchdog.releaseAndWait())
	if err := errors.Join(err, os.RemoveAll(s.dir)); err != nil {
		return fmt.Errorf("stopping the sandbox: %w", err)
	}
	return nil
}

// Dir returns the sandbox's directory.
func (s *Sandbox) Dir() string { return s.dir }

// BinDir returns the directory of the control plane's programs. Our own lie in the folder above.
func (s *Sandbox) BinDir() string { return s.options.BinDir }

// RESTConfig returns an administrator's access to the API server, without a rate limit.
func (s *Sandbox) RESTConfig() *rest.Config { return rest.CopyConfig(s.config) }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (s *Sandbox) Kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// Err reports crashes: an [*ExitError] for each process with an unrequested end.
func (s *Sandbox) Err() <-chan error { return s.errs }

// StartProcess runs a child and waits until it is ready. It ends with the sandbox.
func (s *Sandbox) StartProcess(ctx context.Context, spec ProcessSpec) (*Process, error) {
	if p := s.FindProcess(spec.Name); p != nil && !p.hasEnded() {
		return nil, fmt.Errorf("starting %s: a process of that name runs already", spec.Name)
	}
	p, err := launchProcess(s.dir, spec, s.reportCrash)
	if err != nil {
		return nil, err
	}
	s.addProcess(p)
	if err := awaitReady(ctx, p, spec); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", spec.Name, err), p.Kill())
	}
	return p, nil
}

// FindProcess returns the process started last under a name, nil if there is none.
func (s *Sandbox) FindProcess(name string) *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range slices.Backward(s.processes) {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Processes returns the processes in the order of their start, of each name the one started last.
func (s *Sandbox) Processes() []*Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

func (s *Sandbox) addProcess(p *Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = slices.DeleteFunc(s.processes, func(old *Process) bool { return old.name == p.name })
	s.processes = append(s.processes, p)
}

// reportCrash reports the unrequested end of a process. A full channel drops it: a reader that ignores sixteen crashes does not need the next.
func (s *Sandbox) reportCrash(p *Process) {
	if p.wasStopped() {
		return
	}
	select {
	case s.errs <- p.endError("ended without being told to"):
	default:
	}
}

// ReportProgress writes one line about a step. It is safe for concurrent use, since components start at the same time.
func (s *Sandbox) ReportProgress(format string, args ...any) {
	s.progressMu.Lock()
	defer s.progressMu.Unlock()
	fmt.Fprintf(s.options.Progress, "%6.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *Sandbox) kubectlPath() string { return filepath.Join(s.options.BinDir, nameKubectl) }

func (s *Sandbox) newClient() (kubernetes.Interface, error) {
	client, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	return client, nil
}
