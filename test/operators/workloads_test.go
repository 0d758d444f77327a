package operators

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// workload is one of a kind that asks for the 8 GPUs of as many nodes as members is, of those that its members ask GPUs for.
type workload struct {
	kind string
	// yaml has the place POD for the spec of a pod with 8 GPUs, and IDLE for one without.
	yaml string
	// members with GPUs, and all pods of a group.
	members, all int
}

// workloads need two nodes each, as their authors would write them but for the scheduler's name.
var workloads = []workload{
	{"RayCluster", `apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: ray}
spec:
  headGroupSpec: {rayStartParams: {}, template: {spec: IDLE}}
  workerGroupSpecs: [{groupName: gpu, replicas: 2, minReplicas: 2, maxReplicas: 2, rayStartParams: {}, template: {spec: POD}}]
`, 2, 3},
	{"JobSet", `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: set}
spec:
  replicatedJobs:
  - {name: driver, template: {spec: {backoffLimit: 0, template: {spec: IDLE}}}}
  - {name: workers, replicas: 2, template: {spec: {backoffLimit: 0, template: {spec: POD}}}}
`, 2, 3},
	{"LeaderWorkerSet", `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  replicas: 1
  leaderWorkerTemplate: {size: 2, workerTemplate: {spec: POD}}
`, 2, 2},
	{"Job", `apiVersion: batch/v1
kind: Job
metadata: {name: ddp}
spec: {completionMode: Indexed, parallelism: 2, completions: 2, template: {spec: POD}}
`, 2, 2},
	{"PodGroup", `apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: native}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {name: member-0}
spec: POD
---
apiVersion: v1
kind: Pod
metadata: {name: member-1}
spec: POD
`, 2, 2},
	{"PyTorchJob", `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: torch}
spec:
  pytorchReplicaSpecs:
    Master: {replicas: 1, restartPolicy: OnFailure, template: {spec: POD}}
    Worker: {replicas: 1, restartPolicy: OnFailure, template: {spec: POD}}
`, 2, 2},
	{"MPIJob", `apiVersion: kubeflow.org/v1
kind: MPIJob
metadata: {name: mpi}
spec:
  mpiReplicaSpecs:
    Launcher: {replicas: 1, restartPolicy: Never, template: {spec: IDLE}}
    Worker: {replicas: 2, restartPolicy: OnFailure, template: {spec: POD}}
`, 2, 3},
	{"TrainJob", `apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: llm}
spec: {runtimeRef: {apiGroup: trainer.kubeflow.org, kind: TrainingRuntime, name: torch}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: torch, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
      - {name: node, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {backoffLimit: 0, template: {spec: POD}}}}
`, 2, 2},
}

// containers are the names that operators want the container of training to have, by kind; main for others.
var containers = map[string]string{"PyTorchJob": "pytorch", "MPIJob": "mpi", "TrainJob": "node"}

// manifest is the workload's YAML for a pool, its pods of a priority class, "" for none.
func (w workload) manifest(pool, class string) string {
	spec := fmt.Sprintf(`{schedulerName: %s, nodeSelector: {%s: %s}, restartPolicy: RESTART, priorityClassName: "%s", containers: [{name: main, image: busybox, resources: {limits: {cpu: 1, memory: 1Gi, GPUS}}}]}`,
		names.SchedulerName, names.LabelPool, pool, class)
	spec = strings.Replace(spec, "name: main", "name: "+cmp.Or(containers[w.kind], "main"), 1)
	if w.kind == "PodGroup" {
		spec = strings.Replace(spec, "{", "{schedulingGroup: {podGroupName: native}, ", 1)
	}
	restart := "Never"
	if w.kind == "RayCluster" || w.kind == "LeaderWorkerSet" {
		restart = "Always"
	}
	spec = strings.Replace(spec, "RESTART", restart, 1)
	text := strings.ReplaceAll(w.yaml, "POD", strings.Replace(spec, "GPUS", names.ResourceGPU+": 8", 1))
	return strings.ReplaceAll(text, "IDLE", strings.Replace(spec, ", GPUS", "", 1))
}

// env is one test's part of the cluster.
type env struct{ *clustertest.Env }

func newEnv(t *testing.T) env {
	t.Helper()
	t.Parallel()
	return env{cluster.NewEnvWithPool(t)}
}

func (e env) apply(text string) {
	e.Helper()
	file := filepath.Join(e.TempDir(), "workload.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	e.Kubectl("apply", "-n", e.Namespace, "-f", file)
}

// filler takes the GPUs of a node, with a priority class, "" for none.
func (e env) filler(name, class string) *corev1.Pod {
	e.Helper()
	e.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {schedulerName: %s, nodeSelector: {%s: %s}, priorityClassName: "%s", containers: [{name: main, image: busybox, resources: {limits: {%s: 8}}}]}}`,
		name, names.SchedulerName, names.LabelPool, e.Pool, class, names.ResourceGPU))
	var pod *corev1.Pod
	e.Eventually(name+" to be bound", func(ctx context.Context) (bool, error) {
		var err error
		pod, err = cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", err
	})
	return pod
}

// pods are those of the workload: all that live but the fillers.
func (e env) pods(ctx context.Context) (all, bound []corev1.Pod) {
	list, err := cluster.Client.CoreV1().Pods(e.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp != nil || strings.HasPrefix(pod.Name, "filler") {
			continue
		}
		all = append(all, pod)
		if pod.Spec.NodeName != "" {
			bound = append(bound, pod)
		}
	}
	return all, bound
}

func (e env) waitAllBound(count int) {
	e.Helper()
	e.Eventually(fmt.Sprintf("all %d pods to be bound", count), func(ctx context.Context) (bool, error) {
		_, bound := e.pods(ctx)
		return len(bound) == count, nil
	})
}

// waitRefused waits until all pods are there and one of them says why it waits, and returns that.
func (e env) waitRefused(count int) string {
	e.Helper()
	var said string
	e.Eventually(fmt.Sprintf("%d pods to wait", count), func(ctx context.Context) (bool, error) {
		all, _ := e.pods(ctx)
		said = ""
		for _, pod := range all {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
					said = condition.Message
				}
			}
		}
		return len(all) == count && strings.Contains(said, "gang: "), nil
	})
	return said
}

// while is how long a test looks on while nothing may happen.
const while = 3 * time.Second

// TestHalfAClusterHoldsNothing: with room for one of two nodes no pod of the workload is bound, and with room for both all are.
func TestHalfAClusterHoldsNothing(t *testing.T) {
	for _, w := range workloads {
		t.Run(w.kind, func(t *testing.T) {
			e := newEnv(t)
			e.filler("filler", "")
			e.apply(w.manifest(e.Pool, ""))
			t.Log(e.waitRefused(w.all))
			e.Stays("no pod is bound", while, func() bool { _, bound := e.pods(t.Context()); return len(bound) == 0 })
			e.Kubectl("delete", "-n", e.Namespace, "pod", "filler", "--wait=false", "--grace-period=0", "--force")
			e.waitAllBound(w.all)
		})
	}
}

// TestTheyPreemptAndArePreemptedWhole: a workload of high priority has two pods leave for it at once, or none; and one of low priority leaves whole for another
// gang. For a pod of high priority Kubernetes' own preemption takes one member; what its operator makes anew in the place of that finds no room, so the
// others leave after it, where there is an operator.
func TestTheyPreemptAndArePreemptedWhole(t *testing.T) {
	for _, w := range workloads {
		t.Run(w.kind+" preempts", func(t *testing.T) {
			e := newEnv(t)
			e.filler("filler-a", names.PriorityClassLow)
			e.filler("filler-b", names.PriorityClassLow)
			e.apply(w.manifest(e.Pool, names.PriorityClassHigh))
			e.waitAllBound(w.all)
		})
		t.Run(w.kind+" is preempted by a gang", func(t *testing.T) {
			e := newEnv(t)
			e.leavesFor(w, func() {
				gang := workloads[3].manifest(e.Pool, names.PriorityClassHigh)
				e.apply(strings.Replace(gang, "ddp", "filler", 1))
			})
		})
		if w.kind == "PodGroup" {
			continue // it has no operator
		}
		t.Run(w.kind+" is preempted by a pod", func(t *testing.T) {
			e := newEnv(t)
			e.leavesFor(w, func() { e.filler("filler", names.PriorityClassHigh) })
		})
	}
}

// leavesFor starts a workload of low priority, has others come, and waits until none of its pods with GPUs is left of those that ran.
func (e env) leavesFor(w workload, others func()) {
	e.Helper()
	e.apply(w.manifest(e.Pool, names.PriorityClassLow))
	e.waitAllBound(w.all)
	_, before := e.pods(e.Context())
	others()
	e.Eventually("all pods with GPUs that ran to leave", func(ctx context.Context) (bool, error) {
		_, now := e.pods(ctx)
		return !slices.ContainsFunc(now, func(pod corev1.Pod) bool {
			return pod.Spec.Containers[0].Resources.Limits.Name(names.ResourceGPU, "").Value() > 0 &&
				slices.ContainsFunc(before, func(old corev1.Pod) bool { return old.UID == pod.UID })
		}), nil
	})
}

// TestReplicasStartOneByOne: with room for one replica of two one is whole, and not two halves.
func TestReplicasStartOneByOne(t *testing.T) {
	e := newEnv(t)
	w := workloads[2]
	w.yaml = strings.Replace(w.yaml, "replicas: 1", "replicas: 2", 1)
	e.apply(w.manifest(e.Pool, ""))
	e.waitAllBound(2)
	e.Stays("one replica is whole", while, func() bool {
		_, bound := e.pods(t.Context())
		return len(bound) == 2 && bound[0].Labels["leaderworkerset.sigs.k8s.io/group-index"] == bound[1].Labels["leaderworkerset.sigs.k8s.io/group-index"]
	})
}

// TestItCanBeSwitchedOff by an annotation of the workload: its pods start one by one then.
func TestItCanBeSwitchedOff(t *testing.T) {
	for _, w := range workloads {
		t.Run(w.kind, func(t *testing.T) {
			e := newEnv(t)
			e.filler("filler", "")
			if w.kind == "TrainJob" { // Trainer hands on the annotations of the runtime's template alone
				w.yaml = strings.Replace(w.yaml, "  template:\n", "  template:\n    metadata: {annotations: {g8s.host/gang: \"off\"}}\n", 1)
			} else {
				w.yaml = strings.Replace(w.yaml, "metadata: {name:", `metadata: {annotations: {g8s.host/gang: "off"}, name:`, 1)
			}
			e.apply(w.manifest(e.Pool, ""))
			e.waitAllBound(w.all - 1)
		})
	}
}
