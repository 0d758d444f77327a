// Package gpufilter rejects nodes that cannot give a pod its GPUs: nodes of another pool, of another GPU
// type, kept for others by a GPUReservation, or without the cards or MIG slices: too few, too small, unhealthy or taken. It runs at PreFilter, where an index of nodes
// by pool and type yields the few candidates, and at Filter, which has the last word on each of them and asks the
// allocator that chooses the cards later. Its argument is gpuTypes.
//
// A pod that it handles:
//
//	metadata:
//	  labels: {g8s.host/pool: training}
//	  annotations: {g8s.host/gpu-types: "A100-80G,A800-80G", g8s.host/gpu-memory-min: 60Gi}
//	spec: {containers: [{resources: {limits: {nvidia.com/gpu: 4}}}]}
package gpufilter

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/reservation/follow"
)

// Name is the plugin's name in the scheduler configuration.
const Name = "GPUFilter"

const stateKey fwk.StateKey = "PreFilter" + Name

var (
	_ fwk.PreFilterPlugin   = (*Plugin)(nil)
	_ fwk.FilterPlugin      = (*Plugin)(nil)
	_ fwk.EnqueueExtensions = (*Plugin)(nil)
	_ fwk.SignPlugin        = (*Plugin)(nil)
)

// Plugin filters nodes for one scheduler profile.
type Plugin struct {
	rules             rules
	nodes             nodeIndex
	cache             candidateCache
	nominations       *nominations
	deviceCache       *devices.Cache
	reservations      *follow.Reservations
	startReservations *backfill.StartReservations
}

// state holds what PreFilter read from the pod. It never changes, so clones share it.
type state struct {
	demand demand
	// reservations are the nodes that reservations keep from the pod, nil for none.
	reservations *reservation.ClosedWindows
	// startReservations is what other jobs have reserved of the nodes, nil for nothing.
	startReservations *backfill.ReservedRoom
}

// Clone implements fwk.StateData.
func (s *state) Clone() fwk.StateData { return s }

// Dependencies are shared by the instances of all profiles.
type Dependencies struct {
	// DeviceCache tracks free GPUs.
	DeviceCache *devices.Cache
	// Reservations are the nodes that are kept. nil keeps none.
	Reservations *follow.Reservations
	// StartReservations are what jobs in line were promised. nil promises nothing.
	StartReservations *backfill.StartReservations
	// LearnRunTimes updates the reservations from the ledger at an address, in the background, until ctx ends. It may be nil.
	LearnRunTimes func(ctx context.Context, ledger, authority string, config *rest.Config) error
}

// Factory returns what builds the plugin for each profile.
func Factory(deps Dependencies) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	var indices nodeIndices
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return newProfilePlugin(ctx, obj, handle, deps, &indices)
	}
}

// newProfilePlugin builds the plugin for one profile. It refuses invalid arguments with the path and the value.
func newProfilePlugin(ctx context.Context, obj runtime.Object, handle fwk.Handle, deps Dependencies, indices *nodeIndices) (fwk.Plugin, error) {
	args, ok := obj.(*configv1.GPUFilterArgs)
	if !ok {
		return nil, fmt.Errorf("arguments of %s are %T, want *GPUFilterArgs", Name, obj)
	}
	path := field.NewPath("pluginConfig").Key(Name).Child("args")
	if errs := args.Validate(path); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	nodes, err := indices.indexFor(handle.SharedInformerFactory().Core().V1().Nodes().Informer())
	if err != nil {
		return nil, err
	}
	nominations, err := watchNominations(handle.SharedInformerFactory().Core().V1().Pods().Informer())
	if err != nil {
		return nil, err
	}
	if err := deps.DeviceCache.WatchCluster(ctx, handle); err != nil {
		return nil, err
	}
	if err := deps.Reservations.StartWatching(handle); err != nil {
		return nil, err
	}
	registerMetrics()
	plugin := &Plugin{
		rules: rules{served: args.GPUTypes}, nodes: nodes, cache: candidateCache{index: nodes}, nominations: nominations,
		deviceCache: deps.DeviceCache, reservations: deps.Reservations,
	}
	if horizon := args.EffectivePromiseHorizon(); horizon > 0 {
		plugin.startReservations = deps.StartReservations
		plugin.startReservations.ExtendHorizon(horizon)
		if args.PromiseLedger != "" && deps.LearnRunTimes != nil {
			if err := deps.LearnRunTimes(ctx, args.PromiseLedger, args.PromiseLedgerCA, handle.KubeConfig()); err != nil {
				return nil, fmt.Errorf("setting up %s: %w", path.Child("promiseLedger"), err)
			}
		}
	}
	return plugin, nil
}

// DeviceCache returns the device cache of the plugin.
func (p *Plugin) DeviceCache() *devices.Cache { return p.deviceCache }

// StartReservations returns the start reservations that the plugin applies, nil for none.
func (p *Plugin) StartReservations() *backfill.StartReservations { return p.startReservations }

// Reservations returns the node reservations that the plugin applies.
func (p *Plugin) Reservations() *follow.Reservations { return p.reservations }

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// SignPod identifies pods that the plugin treats alike: those with the same demand, container by container. Whether there are GPUs depends on
// the demand and the node, so such pods have the same candidates. Which GPUs they get depends on earlier pods, but that is chosen at Reserve for
// each pod, and nothing of it is reused. While nodes are reserved, the pod's namespace and its maximum run time count as well.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	demand, err := demandOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	signature := []fwk.SignFragment{{Key: "v1.Pod." + Name + "Demand()", Value: demand}}
	if p.reservations.HasAny() {
		stay, limited := reservation.MaxStay(pod)
		signature = append(signature, fwk.SignFragment{Key: "v1.Pod." + Name + "Stay()", Value: []any{pod.Namespace, stay, limited}})
	}
	if p.startReservations.HasAny() {
		return nil, fwk.NewStatus(fwk.Unschedulable, "what was promised to others is judged for each pod")
	}
	return signature, nil
}
