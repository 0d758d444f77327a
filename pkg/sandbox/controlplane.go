package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const (
	nameEtcd      = "etcd"
	nameAPIServer = "kube-apiserver"

	controlPlaneTimeout = 90 * time.Second // per component; a cold disk on two busy cores
	exitPoll            = 200 * time.Millisecond

	groupMasters = "system:masters"
)

// startControlPlane starts etcd and kube-apiserver by envtest, which handles certificates, ports and users.
func (s *Sandbox) startControlPlane(ctx context.Context) error {
	plane, logs, err := s.newControlPlane()
	if err != nil {
		return err
	}
	defer logs.close()
	started := time.Now()
	finished := make(chan struct{})
	go s.killOnCancel(ctx, finished)
	err = plane.Start()
	close(finished)
	if err != nil {
		return s.controlPlaneError(ctx, plane, err)
	}
	s.plane = plane
	if err := s.adoptProcess(nameEtcd, plane.Etcd.URL.Port(), started); err != nil {
		return err
	}
	if err := s.adoptProcess(nameAPIServer, plane.APIServer.Port, started); err != nil {
		return err
	}
	return s.createAdmin()
}

// newControlPlane configures etcd and kube-apiserver without starting them.
func (s *Sandbox) newControlPlane() (*envtest.ControlPlane, *planeLogs, error) {
	launchers := map[string]string{}
	for _, name := range []string{nameEtcd, nameAPIServer} {
		path := filepath.Join(s.dir, "bin", name)
		if err := writeLauncher(path, pidPath(s.dir, name), filepath.Join(s.options.BinDir, name)); err != nil {
			return nil, nil, err
		}
		launchers[name] = path
	}
	logs, err := openPlaneLogs(s.dir)
	if err != nil {
		return nil, nil, err
	}
	plane := &envtest.ControlPlane{
		Etcd: &envtest.Etcd{
			Path: launchers[nameEtcd], DataDir: filepath.Join(s.dir, "etcd"), Out: logs.etcd, Err: logs.etcd,
			StartTimeout: controlPlaneTimeout,
		},
		APIServer: &envtest.APIServer{
			Path: launchers[nameAPIServer], CertDir: filepath.Join(s.dir, "certs"), Out: logs.apiserver, Err: logs.apiserver,
			StartTimeout: controlPlaneTimeout,
		},
		KubectlPath: s.kubectlPath(),
	}
	plane.Etcd.Configure().
		Set("log-level", "warn").
		Set("quota-backend-bytes", strconv.Itoa(8<<30))
	configureAPIServer(plane.APIServer.Configure(), plane.APIServer.CertDir, s.options.ControllerManager)
	if s.options.PodGroups {
		plane.APIServer.Configure().Set("feature-gates", "GenericWorkload=true").Set("runtime-config", "scheduling.k8s.io/v1beta1=true")
	}
	if s.options.RealKubelets {
		if err := s.prepareForKubelets(plane.APIServer.Configure()); err != nil {
			logs.close()
			return nil, nil, err
		}
	}
	return plane, logs, nil
}

// configureAPIServer sets what differs from envtest's defaults. Two admission plugins need controllers to undo what they do: ServiceAccount waits for
// the namespace's default account, and TaintNodesByCondition taints new nodes as not ready. Servers that delegate authentication, as the scheduler
// does, request the settings of an authenticating proxy over and over until they find some. Here the settings name a proxy without any valid
// certificate.
func configureAPIServer(args *envtest.Arguments, certDir string, controllers bool) {
	args.
		Set("requestheader-client-ca-file", filepath.Join(certDir, "client-cert-auth-ca.crt")).
		Set("requestheader-allowed-names", "no-front-proxy").
		Set("requestheader-username-headers", "X-Remote-User").
		Set("requestheader-group-headers", "X-Remote-Group").
		Set("requestheader-extra-headers-prefix", "X-Remote-Extra-").
		Set("authorization-mode", "RBAC").
		Set("max-requests-inflight", "3000").
		Set("max-mutating-requests-inflight", "1500").
		Set("service-cluster-ip-range", "10.96.0.0/16").
		Set("kubelet-preferred-address-types", "InternalIP").
		Set("profiling", "false")
	if controllers {
		args.Disable("disable-admission-plugins")
		return
	}
	args.Set("disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
}

// killOnCancel ends the children when ctx does, because envtest's start takes no context: it returns as soon as the program that it waits for has
// ended.
func (s *Sandbox) killOnCancel(ctx context.Context, finished <-chan struct{}) {
	select {
	case <-finished:
		return
	case <-ctx.Done():
	}
	for {
		killRecorded(s.dir)
		select {
		case <-finished:
			return
		case <-time.After(exitPoll):
		}
	}
}

// controlPlaneError names the program that did not start, and the reason from its log.
func (s *Sandbox) controlPlaneError(ctx context.Context, plane *envtest.ControlPlane, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("starting the control plane: %w", ctx.Err())
	}
	name := nameEtcd
	if plane.APIServer.EtcdURL != nil { // set once etcd is ready
		name = nameAPIServer
	}
	log := logPath(s.dir, name)
	return errors.Join(&ExitError{Name: name, Reason: err.Error(), Log: log, Tail: TailLog(log)}, plane.Stop())
}

// adoptProcess makes a process that envtest started one of the sandbox's own. Its parent's Wait belongs to envtest, so its end is detected by polling.
func (s *Sandbox) adoptProcess(name, port string, started time.Time) error {
	pid, err := readPID(pidPath(s.dir, name))
	if err != nil {
		return fmt.Errorf("watching %s: %w", name, err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("watching %s: reading its port: %w", name, err)
	}
	p := &Process{
		name: name, pid: pid, port: number, started: started, done: make(chan struct{}),
		log: logPath(s.dir, name), pidFile: pidPath(s.dir, name),
	}
	s.addProcess(p)
	go p.reapProcess(func() error {
		for IsAlive(pid) {
			time.Sleep(exitPoll)
		}
		return errors.New("exit status unknown")
	}, nil, s.reportCrash)
	return nil
}

// createAdmin provisions the user that RESTConfig and Kubeconfig stand for.
func (s *Sandbox) createAdmin() error {
	user, err := s.plane.AddUser(envtest.User{Name: "sandbox:admin", Groups: []string{groupMasters}}, &rest.Config{})
	if err != nil {
		return fmt.Errorf("creating the admin user: %w", err)
	}
	s.config = withoutRateLimit(user.Config())
	if err := writeFile(s.caPath(), s.config.CAData); err != nil {
		return err
	}
	data, err := user.KubeConfig()
	if err != nil {
		return fmt.Errorf("creating the admin's kubeconfig: %w", err)
	}
	return writeFile(s.Kubeconfig(), data)
}

// caPath is the certificate of the authority that signed the API server's.
func (s *Sandbox) caPath() string { return filepath.Join(s.dir, "certs", "sandbox-ca.crt") }

// componentKubeconfig provisions an administrator for a part of the cluster itself and returns its kubeconfig.
func (s *Sandbox) componentKubeconfig(name string) (string, error) {
	return s.UserKubeconfig(name, "sandbox:"+name, groupMasters)
}

// UserKubeconfig provisions a user with a certificate for the groups, and returns the path of a kubeconfig for it. fileName is the name of that file.
func (s *Sandbox) UserKubeconfig(fileName, name string, groups ...string) (string, error) {
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	user, err := s.plane.AddUser(envtest.User{Name: name, Groups: groups}, &rest.Config{})
	if err != nil {
		return "", fmt.Errorf("creating user %s: %w", name, err)
	}
	data, err := user.KubeConfig()
	if err != nil {
		return "", fmt.Errorf("creating the kubeconfig of %s: %w", name, err)
	}
	path := filepath.Join(s.dir, "kubeconfigs", fileName)
	return path, writeFile(path, data)
}

// stopControlPlane ends kube-apiserver and etcd at once: their data goes away with the directory, and an
// orderly shutdown would wait for the watches of clients.
func (s *Sandbox) stopControlPlane() error {
	if s.plane == nil {
		return nil
	}
	var killed []error
	for _, name := range []string{nameAPIServer, nameEtcd} {
		if p := s.FindProcess(name); p != nil {
			killed = append(killed, p.Kill())
		}
	}
	// envtest may not have noticed their end yet. Then it finds out by a signal that it cannot send.
	if err := s.plane.Stop(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		killed = append(killed, fmt.Errorf("stopping the control plane: %w", err))
	}
	return errors.Join(killed...)
}

// withoutRateLimit removes the client's own rate limit: the API server's is the one that counts here.
func withoutRateLimit(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.QPS = -1
	c.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	return c
}

// planeLogs are the log files that envtest writes to while its programs run.
type planeLogs struct{ etcd, apiserver *os.File }

func openPlaneLogs(dir string) (*planeLogs, error) {
	etcd, err := os.Create(logPath(dir, nameEtcd))
	if err != nil {
		return nil, fmt.Errorf("creating a log: %w", err)
	}
	apiserver, err := os.Create(logPath(dir, nameAPIServer))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating a log: %w", err), etcd.Close())
	}
	return &planeLogs{etcd: etcd, apiserver: apiserver}, nil
}

// close closes this process's ends; the programs have their own.
func (l *planeLogs) close() {
	_ = l.etcd.Close()
	_ = l.apiserver.Close()
}

// FreePort returns an unused port of an address of this machine. It is below those that systems use for outgoing connections (RFC 6335 begins them at
// 49152, Linux at 32768): otherwise one of our own clients could get the port between this call and the listening, seconds later.
func FreePort(address string) (int, error) {
	const first, count, tries = 15000, 15000, 100
	var err error
	for range tries {
		port := first + rand.IntN(count)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("finding a free port: %w", err)
}

func writeFile(path string, data []byte) error {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}
