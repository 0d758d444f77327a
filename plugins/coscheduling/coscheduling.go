// Package coscheduling holds the pods of a PodGroup back until all of them have a place. It replaces scheduler-plugins' Coscheduling, under the
// same name, with the same arguments and PodGroups. Nothing else in this project depends on it: a gang is the set of pods with the label
// scheduling.x-k8s.io/pod-group and a PodGroup, whichever scheduler places them.
//
// It decides from memory alone. It reads user input one object at a time and within bounds: a malformed PodGroup is one gang that waits, with a
// reason. Each decision counts the members from the pods that exist, not from events, so a new leader knows the gangs of its predecessor. Live
// pods of one controller count; pods of a job that is being deleted do not.
//
// A gang begins only while there seems to be room for all of it, and then comes first among its equals. Otherwise gangs would take places from
// each other forever, and none would be whole. If the PodGroup has a topology layout, the first member plans for all. Pods are evicted for a
// whole gang that does not run yet, never for a single member. A member that restarts after siblings have succeeded does not wait for them.
//
// What state a gang is in, what it waits for and what wakes it is in gangs.go, and decided in pkg/gang/phase. Where members fit is decided in
// pkg/gang/placement; pkg/preemption has the dry run before an eviction, notices, and the writes.
package coscheduling

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	listersv1 "k8s.io/client-go/listers/core/v1"
	policylisters "k8s.io/client-go/listers/policy/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	"sigs.k8s.io/scheduler-plugins/apis/config/validation"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gang/follow"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gang/queue"
	quotas "g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/preemption"
	reservations "g8s.host/gpu-scheduler/pkg/reservation/follow"
)

// Name is the plugin's name in the scheduler configuration: that of scheduler-plugins.
const Name = "Coscheduling"

var (
	_ fwk.QueueSortPlugin     = (*Plugin)(nil)
	_ fwk.PreEnqueuePlugin    = (*Plugin)(nil)
	_ fwk.PreFilterPlugin     = (*Plugin)(nil)
	_ fwk.PreFilterExtensions = (*Plugin)(nil)
	_ fwk.FilterPlugin        = (*Plugin)(nil)
	_ fwk.PostFilterPlugin    = (*Plugin)(nil)
	_ fwk.ReservePlugin       = (*Plugin)(nil)
	_ fwk.PermitPlugin        = (*Plugin)(nil)
	_ fwk.EnqueueExtensions   = (*Plugin)(nil)
	_ fwk.SignPlugin          = (*Plugin)(nil)
)

// Plugin holds gangs together for one scheduler profile.
type Plugin struct {
	args        args
	handle      fwk.Handle
	groups      follow.Groups
	pools       preemption.Pools
	pods        cache.Indexer
	nodes       listersv1.NodeLister
	finished    follow.FinishedMembers
	deviceCache *devices.Cache
	// reservations keep nodes from members.
	reservations *reservations.Reservations
	// startReservations reserve nodes for the first jobs in the queue. startSearches records when earliest starts were computed.
	startReservations *backfill.StartReservations
	startSearches     backfill.StartSearches
	// quotas hold how many GPUs each namespace may use, and which ones are borrowed.
	quotas  *quotas.Quotas
	budgets policylisters.PodDisruptionBudgetLister
	now     func() time.Time
	replay  bool
	// framework and the fields below are shared by all profiles.
	framework        preemption.Framework
	checkBinding     func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, node string) string
	bindCheckTimeout time.Duration
	departures       *preemption.Departures
	preemptions      *preemption.Notices
	resumptions      *preemption.Resumptions
	queuePositions   *queue.Positions
	// searchLimit is how many pods one search for victims may visit.
	searchLimit int
	// gangs has the state of each gang.
	gangs *gangs
	// labelCounts counts the pods with the label of each PodGroup.
	labelCounts      follow.LabelCounts
	tables           placement.CapacityTables
	latestGeneration placement.LatestGeneration
	// tracksSinglePods says that state exists for a pod without a gang.
	tracksSinglePods atomic.Bool
	// lastPostFiltered is the pod of the last PostFilter call. Only the scheduling loop uses it.
	lastPostFiltered types.UID
	// onEvictions receives the number of pods evicted together. It may be nil.
	onEvictions func(victims int)
	// pendingWrites is how many gangs have writes pending.
	pendingWrites atomic.Int32
}

// args are the arguments of scheduler-plugins, in the units of this package.
type args struct {
	// timeout is how long members wait for the others, unless their PodGroup says otherwise.
	timeout time.Duration
	// backoff is how long no member is tried after one found no place.
	backoff time.Duration
	// tolerance is the share of members, in percent, that may be missing while the others keep their places.
	tolerance int
}

// Dependencies are what the instances of all profiles share.
type Dependencies struct {
	// DeviceCache tracks which GPUs are free.
	DeviceCache *devices.Cache
	// Reservations are the nodes that are kept. nil keeps none.
	Reservations *reservations.Reservations
	// StartReservations are the start reservations of queued jobs. nil makes none.
	StartReservations *backfill.StartReservations
	// Quotas are the GPUQuotas. nil applies none.
	Quotas *quotas.Quotas
	// Now is the clock of decisions, time.Now if it is nil.
	Now func() time.Time
	// Replay says that time is simulated. The caller then reports pods that are gone ([Plugin.PodGone]).
	Replay bool
	// Framework creates framework values. Without it, the places that a preemption would free are not dry-run.
	Framework preemption.Framework
	// CheckBinding asks the API server whether it would bind a pod to a node, and returns the words of its refusal, "" for none. nil disables the
	// check.
	CheckBinding func(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, node string) string
}

// Factory returns what builds the plugin for each profile, from scheduler-plugins' CoschedulingArgs.
func Factory(deps Dependencies) func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	shared := &shared{&preemption.Departures{}, &preemption.Notices{}, &preemption.Resumptions{}, &queue.Positions{}}
	return func(ctx context.Context, obj runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return newPlugin(ctx, obj, handle, deps, shared)
	}
}

// shared is state that all profiles have in common.
type shared struct {
	departures     *preemption.Departures
	preemptions    *preemption.Notices
	resumptions    *preemption.Resumptions
	queuePositions *queue.Positions
}

// newPlugin makes no API requests: the scheduler's informers, which now include PodGroups, start later.
func newPlugin(ctx context.Context, obj runtime.Object, handle fwk.Handle, deps Dependencies, shared *shared) (fwk.Plugin, error) {
	args, err := readArgs(obj)
	if err != nil {
		return nil, err
	}
	factory := handle.SharedInformerFactory()
	pods := factory.Core().V1().Pods().Informer()
	if err := indexPods(pods); err != nil {
		return nil, err
	}
	groups, err := follow.NewGroups(factory, follow.ClientFor(handle.KubeConfig()))
	if err != nil {
		return nil, err
	}
	pools, err := preemption.NewPools(factory, follow.ClientFor(handle.KubeConfig()))
	if err != nil {
		return nil, err
	}
	finished, err := follow.WatchFinished(factory)
	if err != nil {
		return nil, err
	}
	registerMetrics()
	if err := deps.DeviceCache.WatchCluster(ctx, handle); err != nil {
		return nil, err
	}
	if err := deps.Reservations.StartWatching(handle); err != nil {
		return nil, err
	}
	if err := deps.Quotas.StartWatching(handle); err != nil {
		return nil, err
	}
	plugin := &Plugin{
		args: args, handle: handle, groups: groups, pools: pools, pods: pods.GetIndexer(), nodes: factory.Core().V1().Nodes().Lister(),
		finished: finished, deviceCache: deps.DeviceCache, reservations: deps.Reservations, startReservations: deps.StartReservations, quotas: deps.Quotas, now: deps.Now, replay: deps.Replay, searchLimit: searchBudget, budgets: factory.Policy().V1().PodDisruptionBudgets().Lister(),
		framework: deps.Framework, checkBinding: deps.CheckBinding, bindCheckTimeout: bindCheckTimeout, departures: shared.departures, preemptions: shared.preemptions, resumptions: shared.resumptions, queuePositions: shared.queuePositions,
	}
	if plugin.now == nil {
		plugin.now = time.Now
	}
	plugin.gangs = plugin.newGangs()
	deps.StartReservations.SetPositionFunc(plugin.backfillPosition)
	plugin.quotas.GatherBy(plugin.evictionUnit)
	if err := plugin.watchNotified(pods); err != nil {
		return nil, err
	}
	return plugin, plugin.watchPodsAndGroups(pods)
}

func readArgs(obj runtime.Object) (args, error) {
	given, ok := obj.(*config.CoschedulingArgs)
	if !ok {
		return args{}, fmt.Errorf("arguments of %s are %T, want *CoschedulingArgs", Name, obj)
	}
	if err := validation.ValidateCoschedulingArgs(given, nil); err != nil {
		return args{}, fmt.Errorf("checking the arguments of %s: %w", Name, err)
	}
	return args{
		timeout:   boundedSeconds(given.PermitWaitingTimeSeconds),
		backoff:   boundedSeconds(given.PodGroupBackoffSeconds),
		tolerance: int(given.PodGroupRejectPercentage),
	}, nil
}

// boundedSeconds is a duration of at most a year: more would overflow.
func boundedSeconds(count int64) time.Duration {
	const most = 365 * 24 * 60 * 60
	return time.Duration(min(count, most)) * time.Second
}

// Name returns the plugin's name.
func (*Plugin) Name() string { return Name }

// SignPod refuses members, because admitting one depends on the others. This plugin treats all other pods alike.
func (p *Plugin) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	if _, ok := p.groups.GroupOf(pod); ok {
		return nil, fwk.NewStatus(fwk.Unschedulable, "the pod is a member of a gang")
	}
	return nil, nil
}

// membersOf gathers the gang of a pod.
func (p *Plugin) membersOf(pod *corev1.Pod, group *podgroup.Group) placement.Members {
	g := gangOf(pod, group)
	pods := p.gangPods(g, group)
	m := membersOf(pod, group, pods, p.placeOf)
	if m.TotalCount() < group.MinMember && !group.SeveralOwners {
		m.OtherOwners = max(0, p.labelCounts.CountPods(g.group, p.now(), p.countGroupPods)-len(pods))
	}
	return m
}

// gangPods returns the live pods of a gang. If the PodGroup does not gather several owners, it skips the pods of other owners.
func (p *Plugin) gangPods(g gang, group *podgroup.Group) []*corev1.Pod {
	if group.SeveralOwners {
		return p.groupPods(g.group)
	}
	return p.podsByIndex(byGang, gangJobName(g))
}

// groupPods returns the live pods of a PodGroup.
func (p *Plugin) groupPods(group types.NamespacedName) []*corev1.Pod {
	if pods := p.podsByIndex(byGroup, group.String()); len(pods) > 0 {
		return pods
	}
	return p.findSinglePod(group)
}

func (p *Plugin) podsByIndex(index, key string) []*corev1.Pod {
	objects, err := p.pods.ByIndex(index, key)
	if err != nil {
		return nil // the index exists
	}
	pods := make([]*corev1.Pod, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*corev1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// placeOf returns the place of a member. A pod bound to a node that is gone runs nowhere.
func (p *Plugin) placeOf(pod *corev1.Pod) place {
	if pod.Spec.NodeName != "" {
		if _, err := p.nodes.Get(pod.Spec.NodeName); err == nil {
			return placeBound
		}
		return placeGone
	}
	if p.gangs.hasPod(pod.UID) {
		return placeHeld
	}
	return placeNone
}
