package situations

import (
	"context"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// volumes keep the job from a node, or from starting on it.
var volumes = map[string]situation{
	"no such claim": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit("storage.workdirs", claimed("data"))
		},
		want: reason.VolumeMissing, says: []string{"no PersistentVolumeClaim data", "create the claim data in this namespace"},
	},
	"a claim without a volume": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.claim("data", "10Gi", "class-"+w.namespace, "")
			w.submit("storage.workdirs", claimed("data"))
		},
		want: reason.VolumeUnbound, says: []string{"claim data is not bound: no volume of 10Gi of storage class class-", "kubectl describe pvc data"},
	},
	"a volume in another zone": {
		make: func(w *world) {
			w.add(w.node("a", 8).Label(corev1.LabelTopologyZone, "z1"), w.node("b", 8).Pool(w.pool+"-b").Label(corev1.LabelTopologyZone, "z2"))
			w.volume(w.namespace+"-data", "10Gi", "", &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z2"}}},
			}}}})
			w.claim("data", "10Gi", "", w.namespace+"-data")
			w.submit("storage.workdirs", claimed("data"))
		},
		want: reason.VolumeElsewhere, says: []string{"claim data is bound to volume", "only nodes with topology.kubernetes.io/zone=z2 reach", "-b"},
	},
	"a volume is being made": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			class := "slow-" + w.namespace
			_, err := client.StorageV1().StorageClasses().Create(w.Context(), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "example.com/slow", VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
			}, metav1.CreateOptions{})
			w.must(err)
			w.Cleanup(func() {
				_ = client.StorageV1().StorageClasses().Delete(context.Background(), class, metav1.DeleteOptions{})
			})
			w.claim("data", "10Gi", class, "")
			w.does[reason.Wait] = func(diagnosis.Step) { w.provision("data", class) }
			w.submit("storage.workdirs", claimed("data"))
		},
		want: reason.VolumeUnbound, says: []string{"the scheduler has chosen node", "waits for the volume of claim data to be made there of storage class slow-"},
	},
	"a path that the node does not have": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.knows["storage.workdirs"] = []any{map[string]any{"path": "/datasets/there"}}
			w.submit("storage.workdirs", []any{map[string]any{"path": missingPath, "type": "Directory"}})
		},
		want: reason.VolumeMount, says: []string{"cannot mount a volume", missingPath, "storage.workdirs"},
	},
}

// provision makes the volume of a claim, as the provisioner of its class would at last.
func (w *world) provision(claim, class string) {
	w.Helper()
	name := w.namespace + "-" + claim
	w.volume(name, "10Gi", class, nil)
	claims := client.CoreV1().PersistentVolumeClaims(w.namespace)
	w.eventually("the claim to be bound", func(ctx context.Context) bool {
		got, err := claims.Get(ctx, claim, metav1.GetOptions{})
		if err == nil && got.Spec.VolumeName == "" {
			got.Spec.VolumeName = name
			_, err = claims.Update(ctx, got, metav1.UpdateOptions{})
		}
		return err == nil && got.Status.Phase == corev1.ClaimBound
	})
}

// doesNotStart has its node and its GPUs.
var doesNotStart = map[string]situation{
	"an image that is not there": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.knows["environment.image"] = "busybox"
			w.submit("environment.image", missingImage)
		},
		want: reason.ImagePull, says: []string{missingImage + " cannot be pulled", "environment.image"},
	},
	"a program that the image does not have": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.knows["environment.command"] = []any{"run"}
			w.submit("environment.command", []any{noProgram})
		},
		want: reason.ContainerStart, says: []string{noProgram, "no such file or directory", "environment.command"}, never: []string{"takes minutes to pull"},
	},
	"a secret that is not there": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.submit("environment.env", fromSecret("login", "token"))
		},
		want: reason.ContainerConfig, says: []string{`secret "login" not found`, "create the Secret login in this namespace"},
	},
	"a secret without the key": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			_, err := client.CoreV1().Secrets(w.namespace).Create(w.Context(),
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "login"}, StringData: map[string]string{"user": "u"}}, metav1.CreateOptions{})
			w.must(err)
			w.submit("environment.env", fromSecret("login", "password"))
		},
		want: reason.ContainerConfig, says: []string{"add the key password to the Secret login"},
	},
	"a config map that is not there": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.submit("environment.env", []any{map[string]any{"name": "X", "value-from": map[string]any{
				"config-map-key-ref": map[string]any{"name": "settings", "key": "token"}}}})
		},
		want: reason.ContainerConfig, says: []string{`configmap "settings" not found`, "create the ConfigMap settings in this namespace"},
	},
	"a service crashes again and again": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.serve()
			w.knows["environment.command"] = []any{"run"}
			w.submit("environment.command", []any{badProgram})
		},
		want: reason.Crashing, says: []string{"exit code 3", "gpuctl logs train"},
	},
	"a service needs more memory": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.serve()
			w.knows["resources.memory"] = "8Gi"
			w.submit("environment.env", []any{map[string]any{"name": needsMemory, "value": "4Gi"}})
		},
		want: reason.OutOfMemory, says: []string{"used more memory than it asked for", "ask for more memory in resources.memory"},
	},
	"a probe asks for a path that is not served": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.serve()
			w.knows["service.health-check"] = "/health"
			w.submit("service.health-check", wrongPath)
		},
		want: reason.ProbeFailing, says: []string{"statuscode: 404", "service.health-check"}, never: []string{"takes minutes to pull"},
	},
	"a job fails, and is tried again": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.submit("environment.command", []any{badProgram})
			w.does[reason.Wait] = func(diagnosis.Step) { kubelets.mend(w.namespace) } // as what it needs comes back
		},
		want: reason.Retrying, says: []string{"exit code 3", "of 3 comes after a pause", "gpuctl logs train"},
	},
	"a job has used up its retries": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.submit("environment.command", []any{badProgram}, "job.retries", 0)
			w.does[reason.Retry] = func(step diagnosis.Step) {
				kubelets.mend(w.namespace) // "mend what made it fail", then
				w.command(step)
			}
		},
		want: reason.Failed, says: []string{"exit code 3", "mend what made it fail", "gpuctl retry train", "gpuctl logs train"},
	},
	"a job was killed for its memory": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.submit("environment.env", []any{map[string]any{"name": needsMemory, "value": "2Gi"}}, "job.retries", 0)
		},
		want: reason.Failed, says: []string{"OOMKilled", "--set resources.memory=2Gi"},
	},
	"a job has run out of time": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit("resources.time-limit", "2s")
		},
		want: reason.Failed, says: []string{"did not end within its time limit of 2s", "--set resources.time-limit=2m"}, never: []string{"mend what made it fail"},
	},
	"a job was cancelled": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit()
			w.running()
			w.gpuctl("cancel", "train")
		},
		want: reason.Cancelled, says: []string{"start it over: gpuctl retry train"},
	},
}

func fromSecret(name, key string) []any {
	return []any{map[string]any{"name": "X", "value-from": map[string]any{"secret-key-ref": map[string]any{"name": name, "key": key}}}}
}

// serve makes the job one that serves.
func (w *world) serve() { w.doc["kind"] = "inference" }

// doesNotGoOn has run already.
var doesNotGoOn = map[string]situation{
	"a job of higher priority took its place": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.submit("resources.gpu", 8)
			w.running()
			w.urgent()
		},
		want: reason.Preempted, also: []reason.Cause{reason.Busy},
		says:  []string{"preempted by job urgent of namespace", "ago: pod train-", "job urgent of namespace"},
		never: []string{"kube-controller-manager"},
	},
	"a job of higher priority takes its place": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.raw = func(job *batchv1.Job, _ string) { job.Spec.Template.Labels[lingers] = "true" }
			w.submit("resources.gpu", 8)
			w.running()
			w.urgent()
			w.does[reason.Wait] = func(step diagnosis.Step) {
				w.end(diagnosis.Holder{Namespace: w.namespace, Job: "urgent"}) // that job ends, as the step says
			}
		},
		want: reason.Preempted, says: []string{"preempted by job urgent", "it has until"}, never: []string{"kube-controller-manager", "can stop nobody"},
	},
	"its pod was evicted": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.raw = func(job *batchv1.Job, _ string) { job.Spec.Template.Labels[lingers] = "true" }
			w.submit()
			w.running()
			pod := w.pods(w.Context())[0]
			w.must(client.CoreV1().Pods(w.namespace).EvictV1(w.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: w.namespace}}))
			w.does[reason.Wait] = func(diagnosis.Step) { kubelets.letGo(w.namespace) }
		},
		want: reason.Evicted, says: []string{"as kubectl drain and gpuctl advise defrag do"}, never: []string{"kube-controller-manager"},
	},
	"its node is not ready": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.submit()
			w.running()
			kubelets.serve(w.name("a"), false)
			w.patchNode(w.name("a"), `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"NodeStatusUnknown"}]}}`, "status")
			w.does[reason.MendNode] = func(step diagnosis.Step) {
				kubelets.serve(step.Name, true)
				w.patchNode(step.Name, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`, "status")
			}
		},
		want: reason.NodeLost, says: []string{"has not been ready", "whether the pod still runs is not known"}, never: []string{"takes minutes to pull"},
	},
	"its node was deleted": {
		make: func(w *world) {
			w.addOwn(w.node("a", 8))
			w.submit()
			w.running()
			w.addOwn(w.node("b", 8))
			w.must(client.CoreV1().Nodes().Delete(w.Context(), w.name("a"), metav1.DeleteOptions{}))
		},
		want: reason.NodeLost, says: []string{"has been deleted", "Kubernetes removes the pod, and makes another one"}, never: []string{"takes minutes to pull"},
	},
	"it names a node that is not there": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.raw = func(job *batchv1.Job, corrected string) {
				if corrected == "" {
					job.Spec.Template.Spec.NodeName = "gone-7"
				}
			}
			w.label(names.GroupName+"/policy", "exempt") // elsewhere a policy forbids it
			w.submit()
		},
		want: reason.NodeLost, says: []string{"nodeName: gone-7, and there is no such node"}, never: []string{"takes minutes to pull"},
	},
}

// urgent submits a job of high priority that needs the whole node, and waits until the other one had to leave for it.
func (w *world) urgent() {
	w.Helper()
	own, raw := w.doc, w.raw
	w.raw = nil
	w.doc = map[string]any{
		"kind": "training", "job": map[string]any{"name": "urgent", "priority": "high"}, "environment": own["environment"], "resources": own["resources"],
	}
	w.gpuctl("create", "-f", w.file())
	w.doc, w.raw = own, raw
	w.eventually("the job's pod to be told to leave", func(ctx context.Context) bool {
		for _, pod := range w.pods(ctx) {
			if pod.DeletionTimestamp == nil && pod.Spec.NodeName != "" {
				return false
			}
		}
		return true
	})
}

// alone are situations of the whole cluster.
var alone = map[string]situation{
	"the scheduler has died since it looked": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 8)
			w.submit()
			w.eventually("the scheduler's verdict", func(context.Context) bool { return w.why().Verdict != "" })
			w.must(scheduler.Kill())
		},
		want: reason.SchedulerDown, says: []string{"no gpu-scheduler has been running for"},
		never: []string{"the scheduler tries again by itself"},
	},
	"there is no scheduler": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.must(scheduler.Stop())
			err := client.CoordinationV1().Leases("kube-system").Delete(w.Context(), names.SchedulerName, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				w.Fatal(err)
			}
			w.submit()
		},
		want: reason.SchedulerDown, says: []string{"no gpu-scheduler is running"}, never: []string{"the scheduler tries again by itself"},
	},
	"the controllers are stopped": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			controllers := cluster.FindProcess("kube-controller-manager")
			w.must(controllers.Signal(syscall.SIGSTOP))
			w.Cleanup(func() { _ = controllers.Signal(syscall.SIGCONT) })
			w.does[reason.StartControllers] = func(diagnosis.Step) { w.must(controllers.Signal(syscall.SIGCONT)) }
			w.submit()
			time.Sleep(6 * time.Second) // a healthy controller may take some
		},
		want: reason.WaitingForControllers, says: []string{"no controller has looked at the job", "kube-controller-manager is not running, or far behind"},
		follow: reason.StartControllers,
	},
}
