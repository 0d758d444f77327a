package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/amounts"
	"g8s.host/gpu-scheduler/pkg/phrase"
	quotas "g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// admittedPod returns a pod of the job with the defaults of limit ranges that the API server adds.
func admittedPod(f *Facts) *corev1.Pod {
	pod := templatePod(f)
	if pod == nil || f.Space == nil {
		return pod
	}
	return quotas.WithLimitRangeDefaults(pod, f.Space.LimitRanges)
}

// explainExceededBounds lists every violation of the namespace's quotas and limit ranges, since fixing one alone leads to the next rejection. If several
// limits must be raised, raising one alone does not admit the job. The API server asks quotas last.
func explainExceededBounds(f *Facts) []Finding {
	out := slices.Concat(explainExceededLimits(f), explainExceededQuotas(f))
	if len(out) < 2 {
		return out
	}
	for i := range out {
		for j := range out[i].Steps {
			if step := &out[i].Steps[j]; step.Action == reason.RaiseQuota {
				step.Message = phrase.Textf("ask the administrators for a higher quota, %s=%s, and for all else that is named here", step.Field, step.Value)
			}
		}
	}
	return out
}

// askWithin is the maximum request per pod that all quotas and limit ranges admit. There is no such step if one of them requires more than another
// one allows.
func (f *Facts) askWithin(pod *corev1.Pod, what corev1.ResourceName) []Step {
	least, most := f.requestBounds(pod, what)
	if most == nil || most.Sign() <= 0 || most.Cmp(least) < 0 {
		return nil
	}
	field := resourceField(what)
	return []Step{{Action: reason.SetField, Field: field, Value: most.String(), Message: phrase.Textf("ask for at most %s in %s", most, field)}}
}

// askNoLess is the minimum request per pod.
func (f *Facts) askNoLess(pod *corev1.Pod, what corev1.ResourceName) []Step {
	least, most := f.requestBounds(pod, what)
	if most != nil && most.Cmp(least) < 0 {
		return nil
	}
	field := resourceField(what)
	return []Step{{Action: reason.SetField, Field: field, Value: least.String(), Message: phrase.Textf("ask for %s %s in %s", phrase.Textf("at least"), &least, field)}}
}

// requestBounds returns the minimum and maximum of a resource, however it is counted, that all quotas and limit ranges admit for a pod. The maximum is nil
// without a bound. An exhausted quota counts in full: the job waits for others to end.
func (f *Facts) requestBounds(pod *corev1.Pod, what corev1.ResourceName) (least resource.Quantity, most *resource.Quantity) {
	atMost := func(amount resource.Quantity) {
		if most == nil || amount.Cmp(*most) < 0 {
			most = &amount
		}
	}
	for i := range f.Space.Quotas {
		quota := &f.Space.Quotas[i]
		for name, hard := range quota.Spec.Hard {
			asked := quotas.PodAmount(pod, name)
			if quotas.PlainResource(name) != quotas.PlainResource(what) || asked.IsZero() || !quotas.CountsPod(quota, pod) {
				continue
			}
			if now := f.quotaRoom(quota, name); now.Sign() > 0 {
				atMost(now)
			} else {
				atMost(f.perPod(hard, name))
			}
		}
	}
	for _, item := range f.podLimits() {
		if amount, bounds := item.Max[quotas.PlainResource(what)]; bounds {
			atMost(amount)
		}
		if amount := item.Min[quotas.PlainResource(what)]; amount.Cmp(least) > 0 {
			least = amount
		}
	}
	return least, most
}

// podLimits returns the items of all limit ranges of the namespace that limit a pod or its containers.
func (f *Facts) podLimits() (out []corev1.LimitRangeItem) {
	for i := range f.Space.LimitRanges {
		for _, item := range f.Space.LimitRanges[i].Spec.Limits {
			if item.Type == corev1.LimitTypeContainer || item.Type == corev1.LimitTypePod {
				out = append(out, item)
			}
		}
	}
	return out
}

// explainExceededLimits lists the violations of a limit range by the job's containers.
func explainExceededLimits(f *Facts) []Finding {
	pod := admittedPod(f)
	if pod == nil || f.Space == nil {
		return nil
	}
	var out []Finding
	for i := range f.Space.LimitRanges {
		limits := &f.Space.LimitRanges[i]
		for _, item := range limits.Spec.Limits {
			for _, name := range sortedNames(item.Max) {
				most := item.Max[name]
				if asked := largestLimit(pod, item.Type, name); asked.Cmp(most) > 0 {
					out = append(out, f.explainLimitRange(pod, limits.Name, name, phrase.Textf("at most"), asked, most))
				}
			}
			for _, name := range sortedNames(item.Min) {
				least := item.Min[name]
				if asked := largestLimit(pod, item.Type, name); asked.Sign() > 0 && asked.Cmp(least) < 0 {
					out = append(out, f.explainLimitRange(pod, limits.Name, name, phrase.Textf("at least"), asked, least))
				}
			}
		}
	}
	return out
}

// largestLimit is the largest limit of a pod, or of one of its containers.
func largestLimit(pod *corev1.Pod, kind corev1.LimitType, name corev1.ResourceName) resource.Quantity {
	if kind == corev1.LimitTypePod {
		return amounts.Limits(pod)[name]
	}
	var out resource.Quantity
	if kind != corev1.LimitTypeContainer {
		return out
	}
	for i := range pod.Spec.Containers {
		if limit := pod.Spec.Containers[i].Resources.Limits[name]; limit.Cmp(out) > 0 {
			out = limit
		}
	}
	return out
}

func (f *Facts) explainLimitRange(pod *corev1.Pod, name string, what corev1.ResourceName, bound phrase.Text, asked, allowed resource.Quantity) Finding {
	out := Finding{Cause: reason.LimitRangeViolated, Message: phrase.Textf("limit range %s of the namespace allows %s %s of %s, and the job asks for %s",
		name, bound, &allowed, what, &asked)}
	if resourceField(what) != "" && asked.Cmp(allowed) > 0 {
		out.Steps = append(out.Steps, f.askWithin(pod, what)...)
	} else if resourceField(what) != "" {
		out.Steps = append(out.Steps, f.askNoLess(pod, what)...)
	}
	out.Steps = append(out.Steps, Step{Action: reason.RaiseLimit, Kind: "LimitRange", Name: name, Field: string(what), Value: asked.String(),
		Message: phrase.Textf("ask the administrators to let the namespace have %s of %s", &asked, what)})
	return out
}

func limitRefused(_ *Facts, m []string) Finding {
	return Finding{Cause: reason.LimitRangeViolated, Message: phrase.Textf("a limit range of the namespace: %s", m[1]),
		Steps: []Step{{Action: reason.SetField, Message: phrase.Textf("ask for an amount within the limit")}}}
}
