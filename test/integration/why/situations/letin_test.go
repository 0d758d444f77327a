package situations

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// notLetIn is about pods that the API server refuses, and those that nobody looks at.
var notLetIn = map[string]situation{
	"a quota is used up": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.quota("team", gpusOf("4"))
			w.hold("other", "a", 2)
			w.submit("resources.gpu", 4)
		},
		want: reason.QuotaExceeded, says: []string{"a pod asks for 4 GPUs", "2 of 4 are in use", "job other of namespace", "ask for at most 2 in resources.gpu"},
		never: []string{"never fits"},
	},
	"a quota is too small": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.quota("team", gpusOf("2"))
			w.submit("resources.gpu", 4)
		},
		want: reason.QuotaExceeded, says: []string{"it never fits", "ask for at most 2 in resources.gpu", "requests.nvidia.com/gpu=4 lets the job in"},
		never: []string{"wait until"},
	},
	"a namespace may have no GPUs": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.quota("team", gpusOf("0"))
			w.submit()
		},
		want: reason.QuotaExceeded, says: []string{"a pod asks for 1 GPU (requests", "0 of 0 are in use", "it never fits"}, never: []string{"ask for at most"},
	},
	"a quota counts one priority": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.quota("team", gpusOf("1"), func(q *corev1.ResourceQuota) {
				q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{
					ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"g8s-medium", "g8s-high"},
				}}}
			})
			w.submit("resources.gpu", 2)
		},
		want: reason.QuotaExceeded, follow: reason.SetPriority,
		says: []string{"It counts only pods of priority class g8s-medium", "gpuctl set priority train low"},
	},
	"a quota that refused the job is gone": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.quota("team", gpusOf("1"))
			w.submit("resources.gpu", 2)
			w.refused(5)
			w.must(client.CoreV1().ResourceQuotas(w.namespace).Delete(w.Context(), "team", metav1.DeleteOptions{}))
		},
		want: reason.WaitingForControllers, says: []string{"nothing stands against them any more", "Kubernetes tries again by itself"},
		never: []string{"(QuotaExceeded)", "kube-controller-manager is not running"},
	},
	"a quota is used up, and the pool is wrong": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.quota("team", gpusOf("2"))
			w.submit("resources.gpu", 4, "resources.pool", w.pool+"x")
		},
		want: reason.QuotaExceeded, also: []reason.Cause{reason.NoSuchPool}, says: []string{"did you mean pool"},
	},
	"a limit range allows less": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.limitCPU("2")
			w.submit("resources.cpu", 4)
		},
		want: reason.LimitRangeViolated, says: []string{"allows at most 2 of cpu, and the job asks for 4", "ask for at most 2 in resources.cpu"},
	},
	"a limit range allows less, and is raised": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.limitCPU("2")
			w.submit("resources.cpu", 4)
		},
		want: reason.LimitRangeViolated, follow: reason.RaiseLimit,
	},
	"Pod Security restricted": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.enforce("restricted")
			w.submit()
		},
		want: reason.PodSecurityViolated, says: []string{"allowPrivilegeEscalation", "runAsNonRoot", "cannot meet this level", "gpuctl export train"},
	},
	"Pod Security restricted, and is relaxed": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.enforce("restricted")
			w.submit()
		},
		want: reason.PodSecurityViolated, says: []string{"kubectl label namespace", "enforce=baseline"}, follow: reason.LabelNamespace,
	},
	"Pod Security baseline and a path of the node": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.label(names.GroupName+"/policy", "exempt") // elsewhere a policy refuses the job itself
			w.enforce("baseline")
			w.knows["storage.workdirs"] = nil
			w.submit("storage.workdirs", []any{map[string]any{"path": "/datasets/x"}})
		},
		want: reason.PodSecurityViolated, says: []string{"hostPath", "leave out the workdirs that are paths of the node"},
	},
	"a policy of the cluster": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.policy("few-gpus", `object.spec.containers.all(c, !has(c.resources.limits) || !("nvidia.com/gpu" in c.resources.limits) || `+
				`quantity(c.resources.limits["nvidia.com/gpu"]).compareTo(quantity("2")) <= 0)`, "this namespace may use 2 GPUs a pod: ask for fewer")
			w.corrects = func() { w.set("resources.gpu", 2) }
			w.submit("resources.gpu", 4)
		},
		want: reason.RefusedByPolicy, says: []string{"this namespace may use 2 GPUs a pod: ask for fewer", "change the job as the policy says", "refused at"},
	},
	"a webhook does not answer": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.webhook()
			w.submit()
		},
		want: reason.WebhookFailing, says: []string{"admission webhook pods.example.com does not answer"}, never: []string{"kube-controller-manager"},
	},
	"the namespace is being deleted": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.hold("other", "a", 8)
			w.raw = func(job *batchv1.Job, _ string) { job.Finalizers = []string{"situations.example.com/keep"} }
			w.submit()
			w.Cleanup(func() {
				_, _ = client.BatchV1().Jobs(w.namespace).Patch(context.Background(), "train", types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			})
			w.must(client.CoreV1().Namespaces().Delete(w.Context(), w.namespace, metav1.DeleteOptions{}))
		},
		want: reason.NamespaceTerminating, says: []string{"is being deleted, told so at", "gpuctl export train"}, never: []string{"kube-controller-manager"},
	},
	"no such priority class": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.raw = func(job *batchv1.Job, corrected string) {
				if corrected == "" {
					job.Spec.Template.Spec.PriorityClassName = "urgent"
				}
			}
			w.submit()
		},
		want: reason.NoSuchPriorityClass, says: []string{"there is no PriorityClass urgent", "give it priority high, medium or low"},
	},
	"no such service account": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.raw = func(job *batchv1.Job, _ string) { job.Spec.Template.Spec.ServiceAccountName = "robot" }
			w.submit()
		},
		want: reason.NoSuchServiceAccount, says: []string{"no service account robot", "kubectl create serviceaccount robot"},
	},
	"a scheduling gate": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.raw = func(job *batchv1.Job, _ string) {
				job.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}}
			}
			w.submit()
		},
		want: reason.SchedulingGated, says: []string{"example.com/queue"},
	},
	"another scheduler": {
		make: func(w *world) {
			w.label(names.GroupName+"/policy", "exempt") // elsewhere a policy refuses the job itself
			w.add(w.node("a", 8))
			w.raw = func(job *batchv1.Job, corrected string) {
				if corrected == "" {
					job.Spec.Template.Spec.SchedulerName = "volcano"
				}
			}
			w.submit()
		},
		want: reason.OtherScheduler, says: []string{"volcano", "schedulerName: gpu-scheduler"},
	},
	"paused": {
		make: func(w *world) {
			w.add(w.node("a", 8))
			w.submit()
			w.running()
			w.gpuctl("pause", "train")
		},
		want: reason.Suspended, says: []string{"resume it: gpuctl resume train"},
	},
}

// refused waits until the API server has refused a pod of the job so often.
func (w *world) refused(times int32) {
	w.Helper()
	w.eventually("the pod to be refused", func(ctx context.Context) bool {
		events, err := client.CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate"})
		count := int32(0)
		for i := 0; err == nil && i < len(events.Items); i++ {
			count += max(1, events.Items[i].Count)
		}
		return count >= times
	})
}

func (w *world) limitCPU(most string) {
	w.Helper()
	limits := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "bounds"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(most)},
	}}}}
	_, err := client.CoreV1().LimitRanges(w.namespace).Create(w.Context(), limits, metav1.CreateOptions{})
	w.must(err)
}

// enforce sets the namespace's level of Pod Security.
func (w *world) enforce(level string) { w.label("pod-security.kubernetes.io/enforce", level) }

// label labels the namespace.
func (w *world) label(key, value string) {
	w.Helper()
	_, err := client.CoreV1().Namespaces().Patch(w.Context(), w.namespace, types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value), metav1.PatchOptions{})
	w.must(err)
}

// policy refuses pods of the namespace for which an expression does not hold, and waits until it is in force.
func (w *world) policy(name, expression, message string) {
	w.Helper()
	name += "-" + w.namespace
	ctx, api := w.Context(), client.AdmissionregistrationV1()
	_, err := api.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}}}},
			Validations: []admissionv1.Validation{{Expression: expression, Message: message}},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = api.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}, MatchResources: &admissionv1.MatchResources{NamespaceSelector: ofNamespace(w.namespace)},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() {
		_ = api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	w.eventually("the policy to be in force", func(ctx context.Context) bool {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "busybox", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}, Requests: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}},
		}}}}
		_, err := client.CoreV1().Pods(w.namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
}

func ofNamespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}

// webhook has pods of the namespace be judged by a webhook where nobody listens, until it is mended.
func (w *world) webhook() {
	w.Helper()
	name := "silent-" + w.namespace
	api := client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err := api.Create(w.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "pods.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")},
			NamespaceSelector: ofNamespace(w.namespace), SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			FailurePolicy: ptr.To(admissionv1.Fail), TimeoutSeconds: ptr.To[int32](1),
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() { _ = api.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	w.does[reason.MendWebhook] = func(diagnosis.Step) { w.must(api.Delete(w.Context(), name, metav1.DeleteOptions{})) }
	w.eventually("the webhook to be in force", func(ctx context.Context) bool {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "busybox"}}}}
		_, err := client.CoreV1().Pods(w.namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil
	})
}
