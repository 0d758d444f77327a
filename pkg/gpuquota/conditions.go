package gpuquota

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Reasons of conditions.
const (
	ReasonThereIsEnough = "ThereIsEnough"
	ReasonTooFewGPUs    = "TooFewGPUs"
	ReasonNoSuchGPUs    = "NoSuchGPUs"
	ReasonNodesClosed   = "NodesClosed"
)

// Conditions returns the conditions of the quota, without times. Without a min both are False. False conditions have no numbers, so that they do not
// change with the nodes.
func (s *State) Conditions() []metav1.Condition {
	over := metav1.Condition{
		Type: names.ConditionOvercommitted, Status: metav1.ConditionFalse, Reason: ReasonThereIsEnough,
		Message: "no more is guaranteed than there is",
	}
	short := metav1.Condition{
		Type: names.ConditionMinNotBacked, Status: metav1.ConditionFalse, Reason: ReasonThereIsEnough,
		Message: "nodes that take pods have what is guaranteed",
	}
	if s.Min > 0 {
		for _, p := range s.Pledges {
			p.setConditions(&over, &short)
		}
	}
	return []metav1.Condition{over, short}
}

// setConditions sets the conditions that apply to a place: one of the quota's GPU type is more specific than one of the pool.
func (p *Pledge) setConditions(over, short *metav1.Condition) {
	if p.Guaranteed > p.There {
		over.Status, over.Reason = metav1.ConditionTrue, ReasonTooFewGPUs
		over.Message = fmt.Sprintf("%d GPUs of %s are guaranteed by %s, and it has %d: lower a min, or add nodes", p.Guaranteed, p.At.placeText(), p.quotasText(), p.There)
	}
	switch {
	case p.There == 0:
		short.Reason, short.Message = ReasonNoSuchGPUs, fmt.Sprintf("%s has no GPUs: is its name right? gpuctl get labels shows pools and types", p.At.placeText())
	case p.Guaranteed > p.There:
		short.Reason, short.Message = ReasonTooFewGPUs, fmt.Sprintf("%s has %d GPUs, and %d are guaranteed", p.At.placeText(), p.There, p.Guaranteed)
	case p.Guaranteed > p.Open:
		short.Reason = ReasonNodesClosed
		short.Message = fmt.Sprintf("%d of the %d GPUs of %s are on nodes that take pods now, and %d are guaranteed: gpuctl get nodes shows the others",
			p.Open, p.There, p.At.placeText(), p.Guaranteed)
	default:
		return
	}
	short.Status = metav1.ConditionTrue
}

func (p *Pledge) quotasText() string {
	if p.Quotas == 1 {
		return "1 GPUQuota"
	}
	return fmt.Sprintf("%d GPUQuotas", p.Quotas)
}

func (at Place) placeText() string {
	if at.Type == "" {
		return "pool " + at.Pool
	}
	return "type " + at.Type + " in pool " + at.Pool
}
