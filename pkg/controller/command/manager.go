package command

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/advice"
	"g8s.host/gpu-scheduler/pkg/controller/agents"
	"g8s.host/gpu-scheduler/pkg/controller/broken"
	"g8s.host/gpu-scheduler/pkg/controller/census"
	"g8s.host/gpu-scheduler/pkg/controller/dependents"
	"g8s.host/gpu-scheduler/pkg/controller/gpuquotas"
	"g8s.host/gpu-scheduler/pkg/controller/idle"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/notify"
	"g8s.host/gpu-scheduler/pkg/controller/pools"
	"g8s.host/gpu-scheduler/pkg/controller/quotaline"
	"g8s.host/gpu-scheduler/pkg/controller/recovery"
	"g8s.host/gpu-scheduler/pkg/controller/rejected"
	"g8s.host/gpu-scheduler/pkg/controller/replace"
	"g8s.host/gpu-scheduler/pkg/controller/reservations"
	"g8s.host/gpu-scheduler/pkg/controller/spot"
	"g8s.host/gpu-scheduler/pkg/controller/spot/simulated"
	"g8s.host/gpu-scheduler/pkg/controller/spot/tencent"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

const (
	// leaseName and leaseNamespace identify the Lease of the leader election.
	leaseName      = "gpu-controller"
	leaseNamespace = "kube-system"
	// grace is how long running work may take when the program must stop.
	grace = 10 * time.Second
)

// newManager sets up the program without starting it.
func (o *options) newManager(ctx context.Context, cluster *rest.Config) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), g8s.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("learning the kinds of objects: %w", err)
	}
	ofJobs, err := labels.NewRequirement(g8s.LabelJob, selection.Exists, nil)
	if err != nil {
		return nil, fmt.Errorf("selecting jobs: %w", err)
	}
	manager, err := ctrl.NewManager(cluster, ctrl.Options{
		Scheme:                        scheme,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 ptr.To(o.leaseDuration * 2 / 3),
		RetryPeriod:                   ptr.To(o.leaseDuration / 6),
		GracefulShutdownTimeout:       ptr.To(grace),
		HealthProbeBindAddress:        o.probes,
		Metrics: metricsserver.Options{
			BindAddress: o.metrics, SecureServing: true, FilterProvider: filters.WithAuthenticationAndAuthorization,
		},
		Cache: cache.Options{
			// Managed fields are half of an object and unused here.
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&appsv1.Deployment{}:     {Label: labels.NewSelector().Add(*ofJobs)}, // others are unused here
				recovery.LeaseMetadata(): {Namespaces: map[string]cache.Config{corev1.NamespaceNodeLease: {}}},
			},
		},
		Controller: config.Controller{RecoverPanic: ptr.To(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("preparing the controllers: %w", err)
	}
	err = errors.Join(
		manager.AddHealthzCheck("ping", healthz.Ping),
		manager.AddReadyzCheck("caches", cachesSynced(manager)),
		o.addControllers(ctx, manager),
	)
	if err != nil {
		return nil, fmt.Errorf("setting up the controllers: %w", err)
	}
	return manager, nil
}

// addControllers adds everything that the program does.
func (o *options) addControllers(ctx context.Context, manager ctrl.Manager) error {
	if err := index.Register(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	client, events, real := manager.GetClient(), manager.GetEventRecorder(leaseName), clock.RealClock{}
	channels := notify.NewHealth()
	if err := registerMetrics(slices.Concat(recovery.Collectors(client), broken.Collectors(), replace.Collectors(), rejected.Collectors(), advice.Collectors(), channels.Collectors(), []prometheus.Collector{
		&census.Collector{Reader: client, Clock: real},
	})); err != nil {
		return err
	}
	reserves, err := knowsKind(manager, "GPUReservation", "nobody says who is in the way of one")
	if err != nil {
		return err
	}
	shares, err := knowsKind(manager, "GPUQuota", "nobody counts how much of one is in use")
	if err != nil {
		return err
	}
	return errors.Join(
		(&replace.Reconciler{Client: client, Events: events, Clock: real}).SetUp(manager),
		(&recovery.Reconciler{
			Client: client, Live: manager.GetAPIReader(), Events: events, Clock: real,
			Signs: &recovery.Signs{Clock: real}, Settings: o.recovery,
		}).SetUp(manager),
		(&broken.Reconciler{Client: client, Live: manager.GetAPIReader(), Events: events, Clock: real, Settings: o.broken}).SetUp(manager),
		(&agents.Reconciler{Client: client, Events: events, Clock: real}).SetUp(manager),
		(&rejected.Reconciler{Client: client, Events: events, Clock: real}).SetUp(manager),
		(&dependents.Reconciler{Client: client, Events: events}).SetUp(manager),
		(&quotaline.Reconciler{Client: client, Live: manager.GetAPIReader(), Events: events, Clock: real}).SetUp(manager),
		pools.New(client, events, real).SetUp(manager),
		addReservations(manager, reserves),
		addQuotas(manager, shares),
		o.addNotify(manager, channels),
		o.addAdvice(manager, reserves, shares),
		o.addSpot(manager),
		o.addIdle(manager),
	)
}

// knowsKind reports whether the cluster has a kind of ours. If not, it logs what the controller cannot do.
func knowsKind(manager ctrl.Manager, kind, without string) (bool, error) {
	gvk := g8s.SchemeGroupVersion.WithKind(kind)
	if _, err := manager.GetRESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
		manager.GetLogger().Info("The cluster does not know a kind: apply manifests/crds and start again", "kind", kind, "without", without)
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("asking whether the cluster knows %ss: %w", kind, err)
	}
	return true, nil
}

// addReservations adds the controller of GPUReservations if the cluster has the kind.
func addReservations(manager ctrl.Manager, known bool) error {
	if !known {
		return nil
	}
	return reservations.New(manager.GetClient(), manager.GetEventRecorder(leaseName), clock.RealClock{}).SetUp(manager)
}

// addQuotas adds the status of GPUQuotas if the cluster has the kind.
func addQuotas(manager ctrl.Manager, known bool) error {
	if !known {
		return nil
	}
	return gpuquotas.New(manager.GetClient(), clock.RealClock{}).SetUp(manager)
}

// addNotify adds the notification of channels.
func (o *options) addNotify(manager ctrl.Manager, channels *notify.Health) error {
	private, err := parsePrefixes(o.private)
	if err != nil {
		return err
	}
	return (&notify.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(leaseName),
		Clock: clock.RealClock{}, Notifier: notify.NewNotifier(private), Health: channels,
	}).SetUp(manager)
}

// parsePrefixes parses CIDRs.
func parsePrefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--notify-private-addresses: %q is no range of addresses such as 10.1.2.0/24", text)
		}
		out = append(out, prefix)
	}
	return out, nil
}

// addSpot adds the controller of SpotPools if the cluster has the kind.
func (o *options) addSpot(manager ctrl.Manager) error {
	if !o.spot.enabled {
		return nil
	}
	if known, err := knowsKind(manager, "SpotPool", "no spot machines are looked after"); err != nil || !known {
		return err
	}
	cloud, err := tencent.Connect(o.spot.tencentEndpoint)
	if err != nil {
		return fmt.Errorf("--spot-tencent-endpoint: %w", err)
	}
	clouds := map[string]spot.Connect{g8s.ProviderTencentCloud: cloud}
	if o.spot.simulated {
		clouds[g8s.ProviderSimulated] = simulated.Connect(manager.GetClient(), manager.GetAPIReader(), clock.RealClock{})
	}
	return (&spot.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(leaseName), Clock: clock.RealClock{},
		Clouds: clouds, SecretsNamespace: o.spot.secrets,
	}).SetUp(manager)
}

// addIdle adds the detection of idle GPUs if Prometheus is configured.
func (o *options) addIdle(manager ctrl.Manager) error {
	if o.prometheus == "" {
		return nil
	}
	server, err := gpumetrics.NewClient(o.prometheus, nil)
	if err != nil {
		return fmt.Errorf("reading --prometheus-url: %w", err)
	}
	return (&idle.Watcher{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Events: manager.GetEventRecorder(leaseName),
		Clock: clock.RealClock{}, Prometheus: server, Settings: o.idle,
	}).SetUp(manager)
}

// registerMetrics adds metrics to those of the libraries.
func registerMetrics(collectors []prometheus.Collector) error {
	for _, collector := range collectors {
		if err := metrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("showing a metric: %w", err)
		}
	}
	return nil
}

// addAdvice adds the advice controller, unless it is turned off.
func (o *options) addAdvice(manager ctrl.Manager, reserves, shares bool) error {
	if o.advice.After == 0 {
		return nil
	}
	simulator, err := whatif.FindSimulator()
	if err != nil {
		return fmt.Errorf("looking for advice (--advice-after=0 does without): %w", err)
	}
	return (&advice.Reconciler{
		Client: manager.GetClient(), Live: manager.GetAPIReader(), Clock: clock.RealClock{}, Settings: o.advice, Reservations: reserves, Quotas: shares,
		Simulate: func(ctx context.Context, question *whatif.Question) (*whatif.Outcome, error) {
			return whatif.RunSimulator(ctx, simulator, question)
		},
	}).SetUp(manager)
}
