package render

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// poolObjects returns a pool's GPUPool, if it can have one, and its nodes.
func poolObjects(p *workload.Pool) ([]client.Object, []Warning, error) {
	declared := GPUPool(p)
	switch {
	case declared != nil:
		return append([]client.Object{declared}, poolNodes(p)...), nil, nil
	case NeedsGPUPool(p):
		return nil, nil, phrase.Errorf("metadata.name: %q cannot be the name of a GPUPool, which a pool with constraints needs: "+
			"use lower-case letters, digits, '-' and '.', with a letter or digit at both ends", p.Name)
	}
	return poolNodes(p), nil, nil
}

// NeedsGPUPool reports whether a pool has settings that its labels cannot express.
func NeedsGPUPool(p *workload.Pool) bool {
	return !equality.Semantic.DeepEqual(p.Constraints, names.PoolConstraints{}) || !equality.Semantic.DeepEqual(p.Access, names.PoolAccess{}) ||
		p.IdleTimeout != nil || p.MinRuntime != nil || p.MaxMinRuntime != nil || p.CheckpointGrace != nil || p.MaxCheckpointGrace != nil ||
		p.GPUShare != nil
}

// GPUPool returns the GPUPool of a pool; nil if no object can have its name, since labels allow more names.
func GPUPool(p *workload.Pool) *names.GPUPool {
	if len(validation.IsDNS1123Subdomain(p.Name)) > 0 {
		return nil
	}
	return &names.GPUPool{
		TypeMeta:   metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUPool"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name},
		// A YAML block ends with a line break, which is not part of the sentence.
		Spec: names.GPUPoolSpec{Description: strings.TrimSpace(p.Description), Constraints: p.Constraints, Access: p.Access, Defaults: poolDefaults(p)},
	}
}

func poolDefaults(p *workload.Pool) (out names.PoolDefaults) {
	for to, says := range map[*string]*time.Duration{
		&out.IdleTimeout: p.IdleTimeout, &out.MinRuntime: p.MinRuntime, &out.MaxMinRuntime: p.MaxMinRuntime,
		&out.CheckpointGrace: p.CheckpointGrace, &out.MaxCheckpointGrace: p.MaxCheckpointGrace,
	} {
		if says != nil {
			*to = says.String()
		}
	}
	if p.GPUShare != nil {
		out.GPUShare = p.GPUShare.String()
	}
	return out
}

func poolNodes(p *workload.Pool) []client.Object {
	var out []client.Object
	for _, member := range p.Nodes {
		node := &corev1.Node{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: member.Name, Labels: map[string]string{names.LabelPool: p.Name}},
		}
		if member.GPUType != "" {
			node.Labels[names.LabelGPUType] = member.GPUType
		}
		if p.Description != "" {
			node.Annotations = map[string]string{names.AnnotationDescription: p.Description}
		}
		out = append(out, node)
	}
	return out
}
