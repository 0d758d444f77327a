package advice

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/pools"
	"g8s.host/gpu-scheduler/pkg/controller/statuses"
	"g8s.host/gpu-scheduler/pkg/controller/traced"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

// Name is the controller's name in logs and metrics.
const Name = "advice"

const (
	fieldOwner = "gpu-controller-advice"
	// searchTimeout bounds the simulations for one advice.
	searchTimeout = 2 * time.Minute
	// workers bounds the pools reconciled at once: while one search runs, outdated advice of other pools is removed.
	workers = 4
	// busyAgain is the requeue interval while a search for another pool runs.
	busyAgain = time.Second
)

// Settings are set by an administrator.
type Settings struct {
	// After is how long jobs wait before advice is computed, and Every how often it is recomputed.
	After, Every time.Duration
}

// Simulate returns the placement of pods.
type Simulate func(context.Context, *whatif.Question) (*whatif.Outcome, error)

// Reconciler keeps the advice of GPUPools. It searches for one pool at a time, because a simulation occupies a CPU.
type Reconciler struct {
	Client client.Client
	// Live reads what defines gangs, which is not cached.
	Live     client.Reader
	Clock    clock.PassiveClock
	Simulate Simulate
	Settings Settings
	// Reservations says that the cluster has the GPUReservation kind, which keeps nodes from waiting pods.
	Reservations bool
	// Quotas says that the cluster has the GPUQuota kind, which limits waiting pods.
	Quotas bool

	slot simulationSlot
}

// SetUp adds the controller to a manager, whose cache has the indexes of package index.
func (r *Reconciler) SetUp(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).Named(Name).For(&g8s.GPUPool{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(traced.NewReconciler(Name, r))
}

// Reconcile computes advice when jobs have waited long enough, and removes it when none wait.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var pool g8s.GPUPool
	if err := r.Client.Get(ctx, request.NamespacedName, &pool); err != nil {
		r.slot.forgetPool(request.Name)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := pool.Status.Advice
	switch now, since := r.Clock.Now(), pool.Status.Pending.Since; {
	case since == nil:
		r.slot.forgetPool(pool.Name)
		if before == nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, r.writeAdvice(ctx, pool.Name, nil)
	case now.Sub(since.Time) < r.Settings.After:
		return ctrl.Result{RequeueAfter: r.Settings.After - now.Sub(since.Time)}, nil
	case before != nil && now.Sub(before.AsOf.Time) < r.Settings.Every:
		return ctrl.Result{RequeueAfter: r.Settings.Every - now.Sub(before.AsOf.Time)}, nil
	}
	if !r.slot.tryAcquire(pool.Name, before == nil) {
		return ctrl.Result{RequeueAfter: busyAgain}, nil
	}
	defer r.slot.release()
	began := r.Clock.Now()
	advice, err := r.findAdvice(ctx, pool.Name)
	tried.WithLabelValues(resultOf(advice, err)).Inc()
	took.Observe(r.Clock.Since(began).Seconds())
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: r.Settings.Every}, r.writeAdvice(ctx, pool.Name, advice)
}

// findAdvice simulates numbers of new nodes. It returns nil if nothing waits any more, or if the pool has no template node.
func (r *Reconciler) findAdvice(ctx context.Context, pool string) (*g8s.CapacityAdvice, error) {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	situation, err := r.readSituation(ctx, pool)
	if err != nil || situation.Template == nil || len(situation.Waiting.Pods) == 0 {
		return nil, err
	}
	options, err := SearchNodes(min(len(situation.Waiting.Pods), maxNodes), func(nodes int) (int, error) {
		question, err := situation.BuildQuestion(nodes)
		if err != nil {
			return 0, err
		}
		outcome, err := r.Simulate(ctx, question)
		if err != nil {
			return 0, fmt.Errorf("trying %d more nodes in pool %s: %w", nodes, pool, err)
		}
		return StartedJobs(outcome), nil
	})
	now := r.Clock.Now()
	advice := &g8s.CapacityAdvice{Template: situation.Template.Name, Options: options, AsOf: metav1.NewTime(now)}
	if err != nil {
		return nil, err
	}
	if len(options) == 0 {
		advice.Text = "more nodes like " + situation.Template.Name + " would not start what waits: gpuctl why says what would"
		return advice, nil
	}
	advice.Text = AdviceText(situation.Waiting, situation.Template, options, now)
	return advice, nil
}

// readSituation reads the input of the simulations.
func (r *Reconciler) readSituation(ctx context.Context, pool string) (Situation, error) {
	facts, err := pools.GatherFacts(ctx, r.Client, pool)
	if err != nil {
		return Situation{}, err
	}
	out := Situation{Nodes: facts.Nodes, Pods: facts.Pods, Waiting: WaitingOf(facts.Waiting), Now: r.Clock.Now()}
	if r.Reservations {
		var list g8s.GPUReservationList
		if err := r.Client.List(ctx, &list); err != nil {
			return Situation{}, fmt.Errorf("listing GPUReservations: %w", err)
		}
		out.Reservations = list.Items
	}
	if r.Quotas {
		var list g8s.GPUQuotaList
		if err := r.Client.List(ctx, &list); err != nil {
			return Situation{}, fmt.Errorf("listing GPUQuotas: %w", err)
		}
		out.Quotas = list.Items
	}
	out.Template = TemplateOf(out.Nodes, out.Waiting)
	return out, r.readGroups(ctx, &out)
}

// writeAdvice applies advice, and removes it if it is nil.
func (r *Reconciler) writeAdvice(ctx context.Context, pool string, advice *g8s.CapacityAdvice) error {
	return statuses.Apply(ctx, r.Client, statuses.Object{Kind: "GPUPool", Name: pool, Owner: fieldOwner}, &struct {
		Advice *g8s.CapacityAdvice `json:"advice,omitempty"`
	}{advice})
}
