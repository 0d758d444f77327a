package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"g8s.host/gpu-scheduler/pkg/emulation"
)

// versionProber is how the API server is queried for its version.
type versionProber struct {
	// startTimeout is how long the start waits for a response. Until the scheduler runs, its probes fail, so it is short.
	startTimeout time.Duration
	// request is the timeout of one request, and interval the delay before the next one.
	request, interval time.Duration
	// lateInterval is the delay between queries once the scheduler runs.
	lateInterval time.Duration
}

var defaultProber = versionProber{startTimeout: 10 * time.Second, request: 3 * time.Second, interval: 250 * time.Millisecond, lateInterval: 5 * time.Second}

// errNoVersion says that an API server does not report its version: further queries are in vain.
var errNoVersion = errors.New("the API server does not tell its version")

// emulateServer makes the scheduler emulate the version of Kubernetes of its API server, if that is older than its own: newer features would
// wait for kinds that are not served. --emulated-version takes precedence. It is called before feature gates are read. If the server does not
// respond, the scheduler begins with its own version, waits for the server as it does for everything else, and, if it turns out to need another
// version, ends by stop in order to restart.
func (a versionProber) emulateServer(ctx context.Context, stop func(), o *options.Options) error {
	logger := klog.FromContext(ctx)
	effective := o.ComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent)
	own := effective.BinaryVersion()
	if o.Flags.FlagSet("feature gate").Changed("emulated-version") {
		logger.Info("Behaving as a version of Kubernetes", "version", effective.EmulationVersion(), "by", emulation.ByFlag)
		return nil
	}
	server, err := newVersionQuery(o)
	if err != nil {
		return nil //nolint:nilerr // the set-up that follows says what is wrong with it
	}
	found, err := a.queryUntilAnswered(ctx, server)
	choice, tooOld := emulation.Choose(own, found, nil)
	if tooOld != nil {
		return tooOld //nolint:wrapcheck // it says all there is
	}
	if err := emulateVersion(o, choice.Version); err != nil {
		return err
	}
	if err != nil {
		logger.Info("The version of the API server is not known", "err", err)
	}
	logger.Info("Behaving as a version of Kubernetes", "version", choice.Version, "by", choice.By, "apiServer", found)
	if err != nil && !errors.Is(err, errNoVersion) {
		go a.restartAsServer(ctx, stop, server, own)
	}
	return nil
}

// emulateVersion sets the feature gates to those of a version. Flags for them have been read, and remain in effect.
func emulateVersion(o *options.Options, v *version.Version) error {
	effective := o.ComponentGlobalsRegistry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent)
	mutable, ok := effective.(basecompatibility.MutableEffectiveVersion)
	if !ok || v.EqualTo(effective.EmulationVersion()) {
		return nil
	}
	before := effective.EmulationVersion()
	mutable.SetEmulationVersion(v)
	if err := o.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("the flags do not fit Kubernetes %s, which the API server is: %w: leave out what it does not have, or give --emulated-version=%s", v, err, before)
	}
	return nil
}

// versionQuery queries an API server for the version that it emulates.
type versionQuery func(context.Context) (*version.Version, error)

// queryUntilAnswered queries until there is a response, or the timeout is over.
func (a versionProber) queryUntilAnswered(ctx context.Context, server versionQuery) (*version.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, a.startTimeout)
	defer cancel()
	for told := false; ; told = true {
		found, err := a.queryOnce(ctx, server)
		if err == nil || errors.Is(err, errNoVersion) {
			return found, err
		}
		if !told {
			klog.FromContext(ctx).Info("Waiting for the API server to say its version", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(a.interval):
		}
	}
}

func (a versionProber) queryOnce(ctx context.Context, server versionQuery) (*version.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, a.request)
	defer cancel()
	return server(ctx)
}

// restartAsServer queries a server that did not respond in time until it does, and ends a scheduler that has begun with another version than
// required.
func (a versionProber) restartAsServer(ctx context.Context, stop func(), server versionQuery, own *version.Version) {
	logger := klog.FromContext(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(a.lateInterval):
		}
		found, err := a.queryOnce(ctx, server)
		if errors.Is(err, errNoVersion) {
			logger.Info("The version of the API server is not known", "err", err)
			return
		}
		if err != nil {
			continue
		}
		switch choice, err := emulation.Choose(own, found, nil); {
		case err != nil:
			logger.Error(err, "This scheduler ends")
			stop()
		case choice.By == emulation.ByServer:
			logger.Info("This scheduler ends, to begin again as the version of its API server", "version", choice.Version)
			stop()
		}
		return
	}
}

// largestVersion is more than an API server reports as its version.
const largestVersion = 1 << 16

// newVersionQuery returns the version query for the API server that a scheduler with some options uses.
func newVersionQuery(o *options.Options) (versionQuery, error) {
	kubeconfig := o.Deprecated.Kubeconfig
	if o.ConfigFile != "" {
		var err error
		if kubeconfig, err = kubeconfigIn(o.ConfigFile); err != nil {
			return nil, err
		}
	}
	config, err := restConfig(o.Master, kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(rest.AddUserAgent(config, "version"))
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	return func(ctx context.Context) (*version.Version, error) {
		body, err := client.RESTClient().Get().AbsPath("/version").Stream(ctx)
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%w: %w", errNoVersion, err)
		}
		if err != nil {
			return nil, fmt.Errorf("asking the API server for its version: %w", err)
		}
		defer func() { _ = body.Close() }() // it was only read
		data, err := io.ReadAll(io.LimitReader(body, largestVersion))
		if err != nil {
			return nil, fmt.Errorf("asking the API server for its version: %w", err)
		}
		var info apiversion.Info
		if err := json.Unmarshal(data, &info); err != nil { // for example if a proxy responds in place of the server
			return nil, fmt.Errorf("asking the API server for its version: %w", err)
		}
		found, err := emulation.ServerVersion(&info)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNoVersion, err)
		}
		return found, nil
	}, nil
}

// restConfig is how kube-scheduler reaches its API server; it logs once that it is in a cluster.
func restConfig(master, kubeconfig string) (*rest.Config, error) {
	if master == "" && kubeconfig == "" {
		return rest.InClusterConfig() //nolint:wrapcheck // the caller says what it is for
	}
	return clientcmd.BuildConfigFromFlags(master, kubeconfig) //nolint:wrapcheck // the caller says what it is for
}

// kubeconfigIn returns the kubeconfig that a configuration names, "" for none. Reading the whole configuration would read feature gates.
func kubeconfigIn(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading --config: %w", err)
	}
	var config struct {
		ClientConnection struct {
			Kubeconfig string `yaml:"kubeconfig"`
		} `yaml:"clientConnection"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return "", fmt.Errorf("reading --config %s: %w", file, err)
	}
	return config.ClientConnection.Kubeconfig, nil
}
