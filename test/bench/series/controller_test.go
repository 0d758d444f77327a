package series

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/advice"
	"g8s.host/gpu-scheduler/pkg/controller/census"
	"g8s.host/gpu-scheduler/pkg/controller/dependents"
	"g8s.host/gpu-scheduler/pkg/controller/pools"
	"g8s.host/gpu-scheduler/pkg/controller/recovery"
	"g8s.host/gpu-scheduler/pkg/controller/replace"
	"g8s.host/gpu-scheduler/pkg/controller/spot"
	"g8s.host/gpu-scheduler/test/fixture"
)

const (
	nodeCount, jobCount = 1000, 10_000
	poolCount           = 30
)

// gpuTypes are those of a pool in turn.
var gpuTypes = []string{"A100-80G", "H100-80G", "L40S"}

// verdicts are what the scheduler says of jobs that wait: one pool rarely has more causes at once.
var verdicts = []string{
	"0/1000 nodes are available: 1000 Insufficient cpu.", "0/1000 nodes are available: 1000 Insufficient memory.",
	"0/1000 nodes are available: 1000 node(s) had volume node affinity conflict.", "0/1000 nodes are available: 1000 node(s) were unschedulable.",
	"0/1000 nodes are available: 1000 node(s) had untolerated taint(s).", "nothing that anybody knows", "",
}

func poolName(i int) string { return fmt.Sprintf("pool-%02d", i%poolCount) }

func nodes() (all []corev1.Node) {
	for i := range nodeCount {
		node := fixture.Node(fmt.Sprintf("n%04d", i)).Pool(poolName(i)).GPUs(8, gpuTypes[i/poolCount%len(gpuTypes)])
		all = append(all, *node.Obj())
		if i%7 == 0 {
			all[i].Spec.Unschedulable = true
		}
		if i%11 == 0 {
			all[i].Spec.Taints = []corev1.Taint{{Key: g8s.TaintSuspect}}
		}
	}
	return all
}

// cluster is a cache of nodes, of jobs of one pod, of which half wait, and of a SpotPool for each pool.
type cluster struct {
	nodes []corev1.Node
	pods  []corev1.Pod
	spots []g8s.SpotPool
}

func newCluster() *cluster {
	c := &cluster{nodes: nodes()}
	for i := range jobCount {
		pod := fixture.Pod(fmt.Sprintf("job-%05d", i)).GPUs(1).Pool(poolName(i)).Obj()
		if i/poolCount%2 == 0 {
			pod.Spec.NodeName, pod.Status.Phase = c.nodes[i%nodeCount].Name, corev1.PodRunning
		} else {
			pod.Status.Phase = corev1.PodPending
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				Message: verdicts[i/poolCount/2%len(verdicts)],
			}}
		}
		c.pods = append(c.pods, *pod)
	}
	for i := range poolCount {
		c.spots = append(c.spots, g8s.SpotPool{ObjectMeta: metav1.ObjectMeta{Name: poolName(i)}})
	}
	return c
}

func (*cluster) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (c *cluster) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.NodeList:
		list.Items = c.nodes
	case *corev1.PodList:
		list.Items = c.pods
	case *g8s.SpotPoolList:
		list.Items = c.spots
	}
	return nil
}

// controller is what gpu-controller shows: what it counts of a cluster, and what controller-runtime counts of controllers that work.
func controller(t *testing.T) string {
	t.Helper()
	cache := newCluster()
	for _, collector := range slices.Concat(recovery.Collectors(cache), replace.Collectors(), advice.Collectors(), []prometheus.Collector{
		&census.Collector{Reader: cache, Clock: clock.RealClock{}},
	}) {
		if err := metrics.Registry.Register(collector); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { metrics.Registry.Unregister(collector) })
	}
	for _, name := range []string{advice.Name, dependents.Name, pools.Name, recovery.Name, replace.Name, spot.Name} {
		reconcileOnce(t, name)
	}
	return written(t, metrics.Registry)
}

// reconcileOnce has a controller of that name reconcile each way that there is.
func reconcileOnce(t *testing.T, name string) {
	t.Helper()
	results := []reconcile.Result{{}, {RequeueAfter: time.Hour}}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var done sync.WaitGroup
	done.Add(len(results) + 1)
	next := make(chan int, len(results)+1)
	for i := range len(results) + 1 {
		next <- i
	}
	made, err := ctrlcontroller.NewUnmanaged(name, ctrlcontroller.Options{
		SkipNameValidation: ptr.To(true), // the test may run twice
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			select {
			case i := <-next:
				defer done.Done()
				if i < len(results) {
					return results[i], nil
				}
				return reconcile.Result{}, context.DeadlineExceeded
			default:
				return reconcile.Result{}, nil // the one that failed, again
			}
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = made.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for i := range len(results) + 1 {
			request := reconcile.Request{}
			request.Name = fmt.Sprint(i)
			queue.Add(request)
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- made.Start(ctx) }()
	done.Wait()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
