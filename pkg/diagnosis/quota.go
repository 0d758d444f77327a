package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	quotas "g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// explainExceededQuotas lists the quotas of the namespace that currently have no room for another pod of the job.
func explainExceededQuotas(f *Facts) []Finding {
	pod := admittedPod(f)
	if pod == nil || !f.Space.HasPart(snapshot.PartQuotas) {
		return nil
	}
	var out []Finding
	for i := range f.Space.Quotas {
		quota := &f.Space.Quotas[i]
		if !quotas.CountsPod(quota, pod) {
			continue
		}
		for _, name := range sortedNames(quota.Spec.Hard) {
			asked, used, hard := quotas.PodAmount(pod, name), quota.Status.Used[name], quota.Spec.Hard[name]
			sum := used.DeepCopy()
			sum.Sub(f.leavingUse(quota, name))
			sum.Add(asked)
			if asked.Sign() > 0 && (sum.Cmp(hard) > 0 || f.gangExceeds(asked, hard)) {
				out = append(out, f.explainExceededQuota(quota, name, pod))
			}
		}
	}
	return out
}

// gangExceeds reports whether all pods of a gang together ask for more than a quota has: its first pods would be admitted, and wait for the others for ever.
func (f *Facts) gangExceeds(asked, hard resource.Quantity) bool {
	if f.Job.Kind != string(workload.KindTraining) || f.Job.Array != nil || f.Job.Desired < 2 {
		return false
	}
	all := resource.NewMilliQuantity(asked.MilliValue()*int64(f.Job.Desired), asked.Format)
	return all.Cmp(hard) > 0
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	var out []corev1.ResourceName
	for name := range list {
		out = append(out, name)
	}
	slices.SortFunc(out, func(a, b corev1.ResourceName) int { return -cmp.Compare(rankOfResource(a), rankOfResource(b)) })
	return out
}

// rankOfResource puts GPUs first.
func rankOfResource(name corev1.ResourceName) string {
	if quotas.IsGPU(name) {
		return "~" + string(name)
	}
	return string(name)
}

// explainExceededQuota explains one resource of a quota that has no room for a pod of the job.
func (f *Facts) explainExceededQuota(quota *corev1.ResourceQuota, name corev1.ResourceName, pod *corev1.Pod) Finding {
	asked, used, hard := quotas.PodAmount(pod, name), quota.Status.Used[name], quota.Spec.Hard[name]
	word := resourceText(name, asked.Value())
	pods := int64(max(f.Job.Desired, 1))
	array := f.Job.Array != nil
	out := Finding{Cause: reason.QuotaExceeded, Message: phrase.Textf("quota %s of the namespace is exceeded: a pod asks for %s %s, %s of %s are in use",
		quota.Name, &asked, word, &used, &hard)}
	all := *resource.NewMilliQuantity(asked.MilliValue()*pods, asked.Format)
	never := all.Cmp(hard) > 0
	if pods > 1 {
		out.Message = out.Message.Addf(", and the job has %d pods", pods)
	}
	switch {
	case never && (array || f.Job.Kind != string(workload.KindTraining)) && asked.Cmp(hard) <= 0: // replicas run without each other
		out.Message = out.Message.Addf(": at most %d of them fit", hard.MilliValue()/asked.MilliValue())
	case never:
		out.Message = out.Message.Addf(": it never fits")
	}
	class := scopedClass(quota, pod)
	if class != "" {
		out.Message = out.Message.Addf(". It counts only pods of priority class %s", class)
	}
	if !never || array && asked.Cmp(hard) <= 0 {
		out.Steps = append(out.Steps, f.waitForQuota(quota, name))
	}
	if now := f.quotaRoom(quota, name); resourceField(name) != "" && now.Sign() > 0 {
		out.Steps = append(out.Steps, f.askWithin(pod, name)...)
	}
	if step, ok := f.outOfScopeStep(class); ok {
		out.Steps = append(out.Steps, step)
	}
	used.Sub(f.ownUse(quota, name))
	used.Add(all)
	out.Steps = append(out.Steps, Step{Action: reason.RaiseQuota, Kind: "ResourceQuota", Name: quota.Name, Field: string(name), Value: used.String(),
		Message: phrase.Textf("ask the administrators for a higher quota: %s=%s lets the job in", name, &used)})
	return out
}

// resourceText is the common name of a resource of a quota.
func resourceText(name corev1.ResourceName, count int64) phrase.Text {
	word := phrase.Textf("GPUs")
	if count == 1 {
		word = phrase.Textf("GPU")
	}
	switch quotas.PlainResource(name) {
	case names.ResourceGPU:
		return word.Addf(" (%s)", name)
	case names.ResourceSharedGPU:
		return phrase.Textf("shared %s (%s)", word, name)
	}
	return phrase.Quote(string(name))
}

// resourceField is the field of the YAML that requests a resource, "" for none.
func resourceField(name corev1.ResourceName) string {
	return map[corev1.ResourceName]string{
		names.ResourceGPU: reason.FieldGPU, names.ResourceSharedGPU: reason.FieldGPU, corev1.ResourceCPU: reason.FieldCPU, corev1.ResourceMemory: reason.FieldMemory,
	}[quotas.PlainResource(name)]
}

// ownUse is what the job's own pods use of a quota already.
func (f *Facts) ownUse(quota *corev1.ResourceQuota, name corev1.ResourceName) resource.Quantity {
	var out resource.Quantity
	for i := range f.Pods {
		if !gpu.HasEnded(&f.Pods[i]) && quotas.CountsPod(quota, &f.Pods[i]) {
			out.Add(quotas.PodAmount(&f.Pods[i], name))
		}
	}
	return out
}

// leavingUse is what terminating pods of a Job still use of a quota. A Job creates their replacements only when they have ended, while a Deployment
// creates them at once.
func (f *Facts) leavingUse(quota *corev1.ResourceQuota, name corev1.ResourceName) resource.Quantity {
	var out resource.Quantity
	for i := range f.Pods {
		pod := &f.Pods[i]
		if f.Job.Object.Kind == "Job" && pod.DeletionTimestamp != nil && !gpu.HasEnded(pod) && quotas.CountsPod(quota, pod) {
			out.Add(quotas.PodAmount(pod, name))
		}
	}
	return out
}

// quotaRoom is the maximum current request of each pod of the job, by one quota.
func (f *Facts) quotaRoom(quota *corev1.ResourceQuota, name corev1.ResourceName) resource.Quantity {
	used := quota.Status.Used[name]
	left := quota.Spec.Hard[name].DeepCopy()
	left.Sub(used)
	left.Add(f.ownUse(quota, name))
	return f.perPod(left, name)
}

// perPod divides an amount among the pods of the job.
func (f *Facts) perPod(amount resource.Quantity, name corev1.ResourceName) resource.Quantity {
	pods := int64(max(f.Job.Desired, 1))
	if quotas.IsGPU(name) {
		return *resource.NewQuantity(amount.Value()/pods, amount.Format)
	}
	return *resource.NewMilliQuantity(amount.MilliValue()/pods, amount.Format)
}

// waitForQuota names the jobs of the namespace that use a quota.
func (f *Facts) waitForQuota(quota *corev1.ResourceQuota, name corev1.ResourceName) Step {
	var users []*corev1.Pod
	for i := range f.Cluster.Pods {
		pod := &f.Cluster.Pods[i]
		if pod.Namespace == f.Job.Namespace && pod.Labels[names.LabelJob] != f.Job.Name && quotas.CountsPod(quota, pod) && quotas.IsGPU(name) {
			users = append(users, pod)
		}
	}
	holders := sumHolders(users)
	if len(holders) == 0 {
		return Step{Action: reason.Wait, Message: phrase.Textf("wait until jobs of this namespace end, or end one that is not needed")}
	}
	return Step{Action: reason.Wait, Holders: holders, Message: phrase.Textf("wait until jobs of this namespace end, or end one that is not needed: %s", holdersText(holders))}
}

// scopedClass is the priority class of the pod, if the quota counts it for that class.
func scopedClass(quota *corev1.ResourceQuota, pod *corev1.Pod) string {
	if quota.Spec.ScopeSelector == nil {
		return ""
	}
	for _, scope := range quota.Spec.ScopeSelector.MatchExpressions {
		if scope.ScopeName == corev1.ResourceQuotaScopePriorityClass && quotas.SelectsClass(scope, pod.Spec.PriorityClassName) {
			return pod.Spec.PriorityClassName
		}
	}
	return ""
}

// outOfScopeStep is the step to a priority that the quota does not count.
func (f *Facts) outOfScopeStep(class string) (Step, bool) {
	if class == "" {
		return Step{}, false
	}
	for _, priority := range []string{"medium", "low", "high"} {
		pod := templatePod(f)
		pod.Spec.PriorityClassName = "g8s-" + priority
		free := !slices.ContainsFunc(f.Space.Quotas, func(quota corev1.ResourceQuota) bool {
			return scopedClass(&quota, pod) != ""
		})
		if free && class != pod.Spec.PriorityClassName && f.mayHavePriority(pod, pod.Spec.PriorityClassName) {
			return Step{Action: reason.SetPriority, Value: priority, Command: fmt.Sprintf("gpuctl set priority %s %s -n %s", f.Job.Name, priority, f.Job.Namespace),
				Message: phrase.Textf("give it a priority that the quota does not count: gpuctl set priority %s %s -n %s", f.Job.Name, priority, f.Job.Namespace)}, true
		}
	}
	return Step{}, false
}

// explainBehindGang explains a gang whose pods are not created because another gang comes first for a quota of the namespace.
func explainBehindGang(job *inventory.JobDetail) Finding {
	out := Finding{
		Cause: reason.QuotaExceeded,
		Message: phrase.Textf("a quota of the namespace has too little for two gangs at once, and job %s comes first: the pods of this one are made when that has all of its own",
			job.QuotaBehind),
	}
	if job.Excess != nil {
		out.Message = out.Message.Addf("; %s", job.Excess.Message())
	}
	out.Steps = []Step{
		waitStep("wait until that job has its pods, and the quota has room again"),
		{
			Action: reason.Inspect, Command: fmt.Sprintf("gpuctl why %s -n %s", job.QuotaBehind, job.Namespace),
			Message: phrase.Textf("see what job %s waits for: gpuctl why %s -n %s", job.QuotaBehind, job.QuotaBehind, job.Namespace),
		},
		{Action: reason.RaiseQuota, Message: phrase.Textf("or ask for a higher quota")},
	}
	return out
}

// quotaRefused explains a rejection by a quota when the user may not read quotas.
func quotaRefused(_ *Facts, m []string) Finding {
	return Finding{
		Cause:   reason.QuotaExceeded,
		Message: phrase.Textf("quota %s of the namespace is exceeded: a pod asks for %s, %s is in use, the limit is %s", m[1], m[2], m[3], m[4]),
		Steps: []Step{
			waitStep("wait until jobs of this namespace end, or end one that is not needed"),
			{Action: reason.RaiseQuota, Kind: "ResourceQuota", Name: m[1], Message: phrase.Textf("ask the administrators for a higher quota")},
		},
	}
}

func quotaUnspecified(_ *Facts, m []string) Finding {
	return Finding{
		Cause: reason.QuotaExceeded, Message: phrase.Textf("quota %s of the namespace wants every pod to specify %s", m[1], m[2]),
		Steps: []Step{{Action: reason.SetField, Field: unspecifiedFields(m[2]), Message: phrase.Textf("name these resources in the job: %s", unspecifiedFields(m[2]))}},
	}
}

// unspecifiedFields names the fields of the YAML for the resources that a quota requires, such as "limits.cpu for: main; ...".
func unspecifiedFields(wanted string) string {
	var out []string
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if strings.Contains(wanted, string(name)) {
			out = append(out, resourceField(name))
		}
	}
	return joinList(out)
}

func quotaGone(f *Facts, m []string) bool {
	return f.Space.HasPart(snapshot.PartQuotas) && !slices.ContainsFunc(f.Space.Quotas, func(q corev1.ResourceQuota) bool { return q.Name == m[1] })
}
