package controller

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

var (
	faults = flag.Int("faults", 8, "how many random faults TestRandomFaults makes, each in a pool of its own")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "what makes the random faults")
)

// mttr is how long a fault may keep a job from running.
const mttr = 5 * time.Minute

// fault is what happens to a node of a job.
type fault struct {
	job clustertest.Job
	// noticed says that Kubernetes notices at once; away is how long the node is, 0 forever.
	noticed bool
	away    time.Duration
}

func randomFault(random *rand.Rand) fault {
	jobs := []clustertest.Job{
		{Name: "sft", GPUs: 8}, {Name: "lora", GPUs: 1}, {Name: "llm", GPUs: 2, Kind: workload.KindInference},
		{Name: "pretrain", GPUs: 8, Nodes: 2 + random.IntN(3)}, {Name: "ddp", GPUs: 4, Nodes: 4},
	}
	f := fault{job: jobs[random.IntN(len(jobs))], noticed: random.IntN(2) == 0}
	if random.IntN(3) == 0 {
		f.away = time.Duration(1+random.IntN(60)) * time.Second
	}
	return f
}

// TestRandomFaults has nodes die and come back, forever and for a while, under jobs of all kinds, and kills the controller
// meanwhile: each job is whole again in time, none ran twice, and no pool ever lost more nodes to us than it may.
func TestRandomFaults(t *testing.T) {
	bounds.SkipInShort(t)
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	budget := watchBudget(t)
	killAfter := time.Duration(20+random.IntN(30)) * time.Second
	var mu sync.Mutex
	var dead, back []time.Duration // how long jobs were not whole whose node stayed dead, and came back
	t.Run("faults", func(t *testing.T) {
		for i := range *faults {
			f := randomFault(random)
			wait := time.Duration(random.IntN(10_000)) * time.Millisecond
			t.Run(fmt.Sprintf("%03d", i), func(t *testing.T) {
				t.Parallel()
				healed := newEnv(t).suffer(f, wait)
				mu.Lock()
				defer mu.Unlock()
				if f.away > 0 {
					back = append(back, healed)
				} else {
					dead = append(dead, healed)
				}
			})
		}
		t.Run("the controller is killed", func(t *testing.T) {
			takeOver := (&env{&clustertest.Env{T: t}}).standBy()
			t.Parallel()
			time.Sleep(killAfter)
			takeOver()
		})
	})
	t.Logf("%d of %d faults healed; where the node stayed dead %s, where it came back %s", len(dead)+len(back), *faults, spread(dead), spread(back))
	if over := budget(); over != "" {
		t.Error(over)
	}
}

// spread sums durations up.
func spread(took []time.Duration) string {
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	return fmt.Sprintf("%d: p50 %.1f s, p95 %.1f s, longest %.1f s", len(took),
		took[len(took)/2].Seconds(), took[len(took)*95/100].Seconds(), took[len(took)-1].Seconds())
}

// suffer makes a fault, and returns how long the job was not whole.
func (e *env) suffer(f fault, wait time.Duration) time.Duration {
	e.Helper()
	members := max(f.job.Nodes, 1)
	pods := e.Start(f.job)
	time.Sleep(wait)
	lost := pods[len(pods)-1]
	killed := e.kill(lost.Spec.NodeName, f.noticed)
	if f.away > 0 {
		time.Sleep(f.away)
		e.revive(lost.Spec.NodeName)
	}
	e.Within(mttr, f.job.Name+" to be whole", func(context.Context) (bool, error) {
		running := e.History.Running(f.job.Name)
		dead := slices.ContainsFunc(running, func(s clustertest.Sighting) bool { return s.Pod.Spec.NodeName == lost.Spec.NodeName })
		return len(running) == members && (f.away > 0 || !dead), nil
	})
	if f.job.Kind == "" {
		e.once(f.job.Name, killed)
		if failed := e.Status(f.job.Name).Failed; failed != 0 {
			e.Errorf("the job has failed %d times", failed)
		}
	}
	return time.Since(killed.at)
}

// watchBudget watches how many nodes of each pool are called dead at once, and returns what was wrong with that.
func watchBudget(t *testing.T) func() string {
	t.Helper()
	watcher, err := cluster.Client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var over string
	go func() {
		dead := map[string]map[string]bool{}
		for event := range watcher.ResultChan() {
			node, ok := event.Object.(*corev1.Node)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			pool := node.Labels["g8s.host/pool"]
			if dead[pool] == nil {
				dead[pool] = map[string]bool{}
			}
			delete(dead[pool], node.Name)
			if tainted(node, corev1.TaintNodeOutOfService) {
				dead[pool][node.Name] = true
			}
			if len(dead[pool]) > nodesPerPool*20/100 {
				mu.Lock()
				over = fmt.Sprintf("pool %s lost %d nodes at once", pool, len(dead[pool]))
				mu.Unlock()
			}
		}
	}()
	t.Cleanup(watcher.Stop)
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return over
	}
}

func tainted(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == key })
}
