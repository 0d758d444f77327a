package inventory

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// Reader reads what its answers are built from, and nothing else. The number of requests of each method is constant.
type Reader struct {
	client kubernetes.Interface
	onLost func(error)
}

// NewReader returns a Reader that reads with client's identity.
func NewReader(client kubernetes.Interface) *Reader {
	return &Reader{client: client, onLost: func(error) {}}
}

// WithLostHandler returns a Reader whose watches also call lost: with the reason why the last value may be stale, possibly again and again, and with nil
// after they have delivered a current value. Until then they deliver nothing else.
func (r *Reader) WithLostHandler(lost func(error)) *Reader {
	return &Reader{client: r.client, onLost: lost}
}

// watchQueries calls changed with the results of the queries, while all of them can be watched. It ends with a [snapshot.LostError] when one is refused for
// good.
func (r *Reader) watchQueries(ctx context.Context, changed func(*snapshot.Snapshot), wants ...snapshot.Query) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	old := false
	err := snapshot.Watch(ctx, r.client, func(now *snapshot.Snapshot, lost error) {
		switch {
		case snapshot.IsRefused(lost):
			end(lost)
		case lost != nil:
			old = true
			r.onLost(lost)
		case old:
			old = false
			changed(now)
			r.onLost(nil)
		default:
			changed(now)
		}
	}, wants...)
	if cause := context.Cause(ctx); snapshot.IsRefused(cause) {
		return cause
	}
	return err
}

// fleetQueries returns the queries for nodes and pools, from the API server's cache or in their current state.
func fleetQueries(cached bool) []snapshot.Query {
	return []snapshot.Query{
		snapshot.Nodes(snapshot.Scope{Cached: cached}), snapshot.Pods(snapshot.Scope{Fields: snapshot.PlacedPods, Cached: cached}),
		snapshot.GPUPools(),
	}
}

// Fleet reads the nodes and pools: three requests.
func (r *Reader) Fleet(ctx context.Context) (Cluster, error) { return r.readFleet(ctx, true) }

// FleetNow is Fleet including the most recent writes, for callers that miss something.
func (r *Reader) FleetNow(ctx context.Context) (Cluster, error) { return r.readFleet(ctx, false) }

func (r *Reader) readFleet(ctx context.Context, cached bool) (Cluster, error) {
	read, err := snapshot.Read(ctx, r.client, fleetQueries(cached)...)
	if err != nil {
		return Cluster{}, err
	}
	return Build(read), nil
}

// WatchFleet calls changed with the nodes and pools, as WatchJobs does with jobs.
func (r *Reader) WatchFleet(ctx context.Context, changed func(Cluster)) error {
	cluster, err := r.Fleet(ctx)
	if err != nil {
		return err
	}
	changed(cluster)
	return r.watchQueries(ctx, func(now *snapshot.Snapshot) { changed(Build(now)) }, fleetQueries(true)...)
}

// Offers reads what pools could ever give to a job, sorted by pool and type: one request.
func (r *Reader) Offers(ctx context.Context) ([]Offer, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Nodes(snapshot.Scope{Cached: true}))
	if err != nil {
		return nil, err
	}
	return buildOffers(buildNodes(read.Nodes, nil, nil)), nil
}

// NodeLabels reads the labels of all nodes, sorted by node and key, and the names of the nodes, of which some may have
// none: one request.
func (r *Reader) NodeLabels(ctx context.Context) (labels []NodeLabel, nodes []string, err error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Nodes(snapshot.Scope{}))
	if err != nil {
		return nil, nil, err
	}
	for i := range read.Nodes {
		nodes = append(nodes, read.Nodes[i].Name)
	}
	return buildNodeLabels(read.Nodes), nodes, nil
}

// NodePods reads the pods that hold a place on a node: one request. Pods of jobs come with the job's labels.
func (r *Reader) NodePods(ctx context.Context, node string) ([]NodePod, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Pods(snapshot.Scope{Fields: snapshot.PodsOn(node)}))
	if err != nil {
		return nil, err
	}
	return buildNodePods(read.Pods), nil
}

// Leader reads the scheduler's leader, at a time, with two requests. It is nil for a user who may not read the lease.
func (r *Reader) Leader(ctx context.Context, now time.Time) (*snapshot.Leader, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Lease().IfAllowed(), snapshot.Clock(now))
	if err != nil {
		return nil, err
	}
	return read.Leader(), nil
}

// SharedPools reads the pools that have nodes which share their GPUs by memory: one request.
func (r *Reader) SharedPools(ctx context.Context) (map[string]bool, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Nodes(snapshot.Scope{Labels: names.LabelSharing + "=" + names.SharingMemory}))
	if err != nil {
		return nil, err
	}
	pools := map[string]bool{}
	for i := range read.Nodes {
		pools[gpu.PoolOf(&read.Nodes[i])] = true
	}
	return pools, nil
}

// AliasedTypes reads which of types exist on nodes without [names.LabelGPUType], by an alias of it, with one request: a selector cannot ask for one of
// several labels.
func (r *Reader) AliasedTypes(ctx context.Context, types []string) (map[string]bool, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Nodes(snapshot.Scope{Labels: "!" + names.LabelGPUType, Cached: true}))
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for i := range read.Nodes {
		if gpuType := gpu.TypeOf(&read.Nodes[i]); slices.Contains(types, gpuType) {
			found[gpuType] = true
		}
	}
	return found, nil
}

// Presets reads the presets of jobs as they are written, by name, with one request. It is empty if there are none.
func (r *Reader) Presets(ctx context.Context) (map[string]string, error) {
	list, err := r.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, names.PresetConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, phrase.Errorf("reading the presets in ConfigMap %s: %w", names.PresetConfigMap, err)
	}
	return list.Data, nil
}

// Quotas reads the quotas of gpuctl in a namespace, or in all of them for "": one request. They are sorted by name and
// namespace.
func (r *Reader) Quotas(ctx context.Context, namespace string) ([]Quota, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Quotas(snapshot.Scope{Namespace: namespace, Labels: names.LabelQuota}))
	if err != nil {
		return nil, err
	}
	return buildQuotas(read.Quotas), nil
}

// NamespaceQuotas reads all quotas of a namespace that limit pods, regardless of their creator, with one request. It is nil for a user who may not read them.
func (r *Reader) NamespaceQuotas(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Quotas(snapshot.Scope{Namespace: namespace}).IfAllowed())
	if err != nil {
		return nil, err
	}
	return read.Quotas, nil
}

// GPUDefaults reads the default GPUs of pods of a namespace that request none, with one request. It is empty for a user who may not read limit
// ranges.
func (r *Reader) GPUDefaults(ctx context.Context, namespace string) ([]quota.Default, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.LimitRanges(snapshot.Scope{Namespace: namespace}).IfAllowed())
	if err != nil {
		return nil, err
	}
	return quota.GPUDefaults(read.LimitRanges), nil
}

// Limits reads the bounds on the pods of a namespace other than gpuctl's quota, as far as the user may read them: two requests.
func (r *Reader) Limits(ctx context.Context, namespace string) (Limits, error) {
	scope := snapshot.Scope{Namespace: namespace}
	read, err := snapshot.Read(ctx, r.client, snapshot.Quotas(scope).IfAllowed(), snapshot.LimitRanges(scope).IfAllowed())
	if err != nil {
		return Limits{}, err
	}
	return buildLimits(read.Quotas, read.LimitRanges), nil
}

// Namespaces reads all namespaces and their quotas, sorted by name: two requests.
func (r *Reader) Namespaces(ctx context.Context) ([]Namespace, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.Namespaces(), snapshot.Quotas(snapshot.Scope{Labels: names.LabelQuota}))
	if err != nil {
		return nil, err
	}
	return buildNamespaces(read.Namespaces, buildQuotas(read.Quotas)), nil
}

// State is the whole cluster at one moment, for a server that answers many from memory. It is only read.
type State struct {
	Cluster
	// Objects are as Kubernetes has them.
	Objects *snapshot.Snapshot
	// Namespaces are sorted by name, Quotas by name and namespace.
	Namespaces []Namespace
	Quotas     []Quota
}

// WatchCluster calls changed with the current cluster and then after every burst of changes, until ctx ends. It never calls changed concurrently. It makes
// no requests beside the watches. Watches that fail leave stale data, which is logged; the others continue.
func (r *Reader) WatchCluster(ctx context.Context, changed func(State)) error {
	query, logged := JobQuery{Foreign: true}, ""
	jobs := query.snapshotScope()
	return snapshot.Watch(ctx, r.client, func(now *snapshot.Snapshot, lost error) {
		switch {
		case lost == nil:
			logged = ""
		case lost.Error() != logged:
			logged = lost.Error()
			klog.FromContext(ctx).Error(lost, "Cannot follow the cluster")
		}
		if now == nil {
			return
		}
		now = query.withForeign(now)
		now.Now = time.Now()
		quotas := buildQuotas(managedQuotas(now.Quotas))
		changed(State{Cluster: Build(now), Objects: now, Namespaces: buildNamespaces(now.Namespaces, quotas), Quotas: quotas})
	}, snapshot.Nodes(snapshot.Scope{}), snapshot.Pods(snapshot.Scope{}), snapshot.Jobs(jobs), snapshot.ForeignJobs(snapshot.Scope{}),
		snapshot.Deployments(jobs), refusalEvents(""), snapshot.Namespaces(), snapshot.Quotas(snapshot.Scope{}), snapshot.GPUPools())
}

// NotFoundError reports that there is no such job.
type NotFoundError struct {
	Namespace, Name string
	// Kind is the kind that was asked for, "" for any.
	Kind string
	// OtherKinds are those of the jobs that have the name.
	OtherKinds []string
}

func (e *NotFoundError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *NotFoundError) Message() phrase.Text {
	kind := phrase.Textf("job")
	if e.Kind != "" {
		kind = phrase.Textf("%s job", e.Kind)
	}
	text := phrase.Textf("%s %q not found in namespace %s", kind, e.Name, e.Namespace)
	if len(e.OtherKinds) > 0 {
		text = text.Addf(": the job of that name is %s/%s", strings.Join(e.OtherKinds, " and "), e.Name)
	}
	return text
}

// AmbiguousError reports that several jobs have one name. They differ in kind, and gpuctl did not create all of them.
type AmbiguousError struct {
	Namespace, Name string
	Kinds           []string
}

func (e *AmbiguousError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *AmbiguousError) Message() phrase.Text {
	return phrase.Textf("%s has several jobs named %q: %s", e.Namespace, e.Name, strings.Join(e.Kinds, ", "))
}
