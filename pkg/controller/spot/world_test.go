package spot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/controller/spot"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

// errDead is what a controller meets that was killed: nothing that it does has an effect any more.
var errDead = errors.New("the controller was killed")

// world is a cluster, a cloud and a controller in virtual time.
type world struct {
	*testing.T
	clock  *clocktesting.FakePassiveClock
	cloud  *fakecloud.Cloud
	client client.WithWatch
	random *rand.Rand
	events *log

	// mute are the machines whose kubelets never register; nil is none.
	mute func(fakecloud.Machine) bool

	controller *spot.Reconciler
	fuse       *fuse
	due        time.Time
}

// grace is how long the node of a machine that has ended is still called ready, as Kubernetes has it.
const grace = 45 * time.Second

const poolName = "train-spot"

func newWorld(t *testing.T, seed uint64, change func(*g8s.SpotPoolSpec)) *world {
	t.Helper()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), g8s.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	pool := &g8s.SpotPool{
		ObjectMeta: metav1.ObjectMeta{Name: poolName, UID: "pool-uid", Generation: 1},
		Spec: g8s.SpotPoolSpec{
			Pool: "train", GPUType: "A100-80G", Minimum: 4, Maximum: 8,
			Provider: g8s.SpotProvider{Name: g8s.ProviderTencentCloud, Region: "r1", CredentialsSecret: &g8s.SecretName{Name: "account"}},
			Template: g8s.MachineTemplate{
				InstanceTypes: []string{"GN10", "GN8"}, Zones: []g8s.MachineZone{{Name: "a"}, {Name: "b"}}, GPUs: 8,
				UserData: &g8s.SecretKey{SecretName: g8s.SecretName{Name: "join"}, Key: "script"},
			},
			DrainSeconds: ptr.To[int32](60), WaitSeconds: ptr.To[int32](30), IdleSeconds: ptr.To[int32](120),
		},
	}
	if change != nil {
		change(&pool.Spec)
	}
	w := &world{
		T: t, clock: clocktesting.NewFakePassiveClock(start), cloud: fakecloud.New(seed, start), random: rand.New(rand.NewPCG(seed, 2)),
		events: &log{},
	}
	w.events.clock = w.clock
	nodeName := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
	w.client = fake.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(&g8s.SpotPool{}, &corev1.Pod{}).
		WithIndex(&corev1.Pod{}, index.Node, nodeName).
		WithIndex(&corev1.Pod{}, "spec.nodeName", nodeName).
		WithIndex(&corev1.Pod{}, index.WaitingPool, func(object client.Object) []string {
			pod := object.(*corev1.Pod)
			if pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending {
				return nil
			}
			return []string{pod.Spec.NodeSelector[g8s.LabelPool]}
		}).
		WithObjects(pool,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "cluster-uid"}},
			secretOf("account", map[string]string{"secretId": canaryID, "secretKey": canaryKey}),
			secretOf("join", map[string]string{"script": canaryScript})).
		Build()
	w.begin(nil)
	return w
}

// What no output may show.
const (
	canaryID     = "AKIDcanaryIdentity0001"
	canaryKey    = "canaryKeyOfTheAccount02"
	canaryScript = "#!/bin/sh\nkubeadm join --token canary.Token03\n"
)

func secretOf(name string, values map[string]string) *corev1.Secret {
	out := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "g8s-spot", Name: name}, Data: map[string][]byte{}}
	for key, value := range values {
		out.Data[key] = []byte(value)
	}
	return out
}

// begin starts a controller, as a new leader does: with no memory. f kills it, nil does not.
func (w *world) begin(f *fuse) {
	if f == nil {
		f = &fuse{left: -1}
	}
	w.fuse = f
	guarded := guard(w.client, f)
	connect := func(account spot.Account) (spot.Cloud, error) {
		cloud, err := w.cloud.Connect(account)
		return &guardedCloud{cloud: cloud, fuse: f}, err
	}
	w.controller = &spot.Reconciler{
		Client: guarded, Live: guarded, Events: w.events, Clock: w.clock, SecretsNamespace: "g8s-spot",
		Clouds: map[string]spot.Connect{g8s.ProviderTencentCloud: connect},
	}
	w.due = w.clock.Now()
}

// second lets a second pass, and has the controller do what is due.
func (w *world) second() { w.step(time.Second) }

// leap lets hours pass in steps of a few seconds.
func (w *world) leap(d time.Duration) {
	w.Helper()
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		w.step(5 * time.Second)
	}
}

func (w *world) step(d time.Duration) {
	w.Helper()
	now := w.clock.Now().Add(d)
	w.clock.SetTime(now)
	w.cloud.At(now)
	w.kubelets(now)
	if now.Before(w.due) {
		return
	}
	result, err := w.controller.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: poolName}})
	switch {
	case w.fuse.burnt():
		w.begin(nil)
		w.due = now.Add(time.Duration(1+w.random.IntN(4)) * time.Second) // until another leads
	case err != nil:
		w.Logf("%s: %v", now.Format(time.TimeOnly), err)
		w.due = now.Add(2 * time.Second)
	case result.RequeueAfter > 0:
		w.due = now.Add(result.RequeueAfter)
	}
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	w.Helper()
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		w.second()
	}
}

// kubelets have the nodes of machines that run, and are silent when these end.
func (w *world) kubelets(now time.Time) {
	w.Helper()
	var list corev1.NodeList
	if err := w.client.List(w.Context(), &list); err != nil {
		w.Fatal(err)
	}
	nodes := map[string]*corev1.Node{}
	for i := range list.Items {
		nodes[list.Items[i].Name] = &list.Items[i]
	}
	for _, m := range w.cloud.Machines() {
		node := nodes[m.Name]
		if node != nil && m.Alive(now) && now.Unix()%10 == 0 {
			w.renew(m.Name, now)
		}
		switch {
		case node == nil && m.Alive(now) && !m.Ready.After(now) && (w.mute == nil || !w.mute(m)):
			w.create(&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: m.Name, UID: types.UID("node-of-" + m.ID)},
				Spec:       corev1.NodeSpec{ProviderID: "qcloud:///1/" + m.ID, Taints: []corev1.Taint{{Key: g8s.TaintJoining, Effect: corev1.TaintEffectNoSchedule}}},
				Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			})
		case node != nil && !m.Alive(now) && now.Sub(m.Ended) >= grace && node.Status.Conditions[0].Status == corev1.ConditionTrue:
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
			if err := w.client.Update(w.Context(), node); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// renew is a kubelet's sign of life.
func (w *world) renew(node string, now time.Time) {
	w.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	at := ptr.To(metav1.NewMicroTime(now))
	if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(lease), lease); apierrors.IsNotFound(err) {
		lease.Spec.RenewTime = at
		w.create(lease)
		return
	}
	lease.Spec.RenewTime = at
	if err := w.client.Update(w.Context(), lease); err != nil {
		w.Fatal(err)
	}
}

func (w *world) create(object client.Object) {
	w.Helper()
	if err := w.client.Create(w.Context(), object); err != nil {
		w.Fatal(err)
	}
}

func (w *world) pool() *g8s.SpotPool {
	w.Helper()
	var pool g8s.SpotPool
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: poolName}, &pool); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		w.Fatal(err)
	}
	return &pool
}

// change changes the spec.
func (w *world) change(f func(*g8s.SpotPoolSpec)) {
	w.Helper()
	pool := w.pool()
	f(&pool.Spec)
	pool.Generation++
	if err := w.client.Update(w.Context(), pool); err != nil {
		w.Fatal(err)
	}
}

// staying are the machines that cost money and are not about to go, by the word of the cloud.
func (w *world) staying() []fakecloud.Machine {
	var out []fakecloud.Machine
	for _, m := range w.cloud.Machines() {
		if m.Alive(w.clock.Now()) && m.Notice.IsZero() && !m.Asked {
			out = append(out, m)
		}
	}
	return out
}

// alive are all that cost money.
func (w *world) alive() (out []fakecloud.Machine) {
	for _, m := range w.cloud.Machines() {
		if m.Alive(w.clock.Now()) {
			out = append(out, m)
		}
	}
	return out
}

// fuse kills a controller at one of its calls.
type fuse struct {
	mu   sync.Mutex
	left int
	// after says that the call is still carried out.
	after, dead bool
}

func (f *fuse) burnt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// call makes a call, unless the controller is dead by then.
func (f *fuse) call(do func() error) error {
	f.mu.Lock()
	if f.dead {
		f.mu.Unlock()
		return errDead
	}
	dies := f.left == 0
	f.left--
	f.dead = dies
	f.mu.Unlock()
	if dies && !f.after {
		return errDead
	}
	err := do()
	if dies {
		return errDead
	}
	return err
}

type guardedCloud struct {
	cloud spot.Cloud
	fuse  *fuse
}

func (g *guardedCloud) Launch(ctx context.Context, order spot.Order) (id string, err error) {
	err = g.fuse.call(func() (err error) { id, err = g.cloud.Launch(ctx, order); return err })
	return id, err
}

func (g *guardedCloud) List(ctx context.Context, known []string) (out []spot.Instance, err error) {
	err = g.fuse.call(func() (err error) { out, err = g.cloud.List(ctx, known); return err })
	return out, err
}

func (g *guardedCloud) Terminate(ctx context.Context, ids []string) error {
	return g.fuse.call(func() error { return g.cloud.Terminate(ctx, ids) })
}

// guard has the calls of a client go through a fuse.
func guard(c client.WithWatch, f *fuse) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			return f.call(func() error { return c.Get(ctx, key, o, opts...) })
		},
		List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
			return f.call(func() error { return c.List(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return f.call(func() error { return c.Patch(ctx, o, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.call(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return f.call(func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return f.call(func() error { return c.SubResource(sub).Patch(ctx, o, patch, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			return f.call(func() error { return c.SubResource(sub).Create(ctx, o, body, opts...) })
		},
	})
}

// log keeps the texts of events.
type log struct {
	clock *clocktesting.FakePassiveClock
	mu    sync.Mutex
	lines []string
}

var _ events.EventRecorder = (*log)(nil)

func (l *log) Eventf(regarding, _ runtime.Object, kind, reason, _, note string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := ""
	if object, ok := regarding.(client.Object); ok {
		name = object.GetName()
	}
	l.lines = append(l.lines, fmt.Sprintf("%s %s %s %s: %s", l.clock.Now().Format(time.TimeOnly), kind, name, reason, fmt.Sprintf(note, args...)))
}

// all are the events so far.
func (l *log) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}
