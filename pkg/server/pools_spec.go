package server

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// PoolSpec is the wanted state of a pool.
type PoolSpec struct {
	Description string   `json:"description,omitempty" maxLength:"1024"`
	Nodes       []string `json:"nodes,omitempty" maxItems:"5000" doc:"A pool is its nodes: without any it does not exist"`
	GPUType     []string `json:"gpuType,omitempty" maxItems:"5000" doc:"The type of the nodes' GPUs: one for all nodes, or one for each in their order"`
	// Constraints are nil if the request does not set them.
	Constraints *PoolConstraints `json:"constraints,omitempty" doc:"What each node must be like, written to the GPUPool of that name; left out, they stay as they are"`
	Access      *PoolAccess      `json:"access,omitempty" doc:"Who may use the pool, written to the GPUPool of that name; left out, it stays as it is, and {} is everybody"`
	// YAMLContent is the pool as a gpuctl document, instead of all fields above.
	YAMLContent string `json:"yamlContent,omitempty" doc:"A document of the kind pool, as gpuctl reads it, instead of all of the above. The document itself may be the body, as application/yaml"`
	Force       bool   `json:"force,omitempty" doc:"Take nodes out of the pools that they are in"`
	Overwrite   bool   `json:"overwrite,omitempty" doc:"Create a pool whose nodes have other GPU types, and change them; without it that is 409 LabelConflict. PUT always changes them"`
	DryRun      bool   `json:"dryRun,omitempty" doc:"Let the API server check everything, and change nothing"`
}

// buildPool validates the wanted state of a pool.
func (spec *PoolSpec) buildPool(name string) (*workload.Pool, error) {
	if problems := validation.IsValidLabelValue(name); len(problems) > 0 {
		return nil, invalidErrorf("%q is no name of a pool: %s", name, strings.Join(problems, "; "))
	}
	if name == names.DefaultPool {
		return nil, invalidErrorf("the pool %q is all nodes that are in no other: take nodes out of theirs instead", name)
	}
	if n := len(spec.GPUType); n > 1 && n != len(spec.Nodes) {
		return nil, invalidErrorf("gpuType has %d types for %d nodes: give one for all, or one for each", n, len(spec.Nodes))
	}
	named := map[string]bool{}
	out := &workload.Pool{Name: name, Description: spec.Description}
	for i, node := range spec.Nodes {
		member := workload.PoolNode{Name: node}
		switch len(spec.GPUType) {
		case 0:
		case 1:
			member.GPUType = spec.GPUType[0]
		default:
			member.GPUType = spec.GPUType[i]
		}
		if problems := validation.IsValidLabelValue(member.GPUType); len(problems) > 0 {
			return nil, invalidErrorf("%q is no type of GPUs: %s", member.GPUType, strings.Join(problems, "; "))
		}
		if named[node] {
			return nil, invalidErrorf("node %q is named twice", node)
		}
		named[node] = true
		out.Nodes = append(out.Nodes, member)
	}
	return out, spec.fillDeclared(out)
}

// fillDeclared adds the GPUPool fields that the request sets.
func (spec *PoolSpec) fillDeclared(out *workload.Pool) (err error) {
	if spec.Constraints != nil {
		if out.Constraints, err = spec.Constraints.parseConstraints(); err != nil {
			return err
		}
	}
	if spec.Access != nil {
		out.Access, err = spec.Access.parseAccess()
	}
	return err
}

// keepUnstated fills in the GPUPool fields that a request omits: the access rules stay when the constraints change, and vice versa, and the defaults for jobs
// always stay.
func (spec *PoolSpec) keepUnstated(ctx context.Context, wanted *workload.Pool) error {
	if spec.Constraints == nil && spec.Access == nil {
		return nil // the request does not set it, or a document sets everything
	}
	writer, err := newWriter(ctx)
	if err != nil {
		return err
	}
	live, err := writer.GPUPool(ctx, wanted.Name)
	if err != nil || live == nil {
		return err
	}
	if spec.Constraints == nil {
		wanted.Constraints = live.Spec.Constraints
	}
	if spec.Access == nil {
		wanted.Access = live.Spec.Access
	}
	keepDefaults(wanted, live.Spec.Defaults)
	return nil
}

func keepDefaults(wanted *workload.Pool, live names.PoolDefaults) {
	for to, says := range map[**time.Duration]string{
		&wanted.IdleTimeout: live.IdleTimeout, &wanted.MinRuntime: live.MinRuntime, &wanted.MaxMinRuntime: live.MaxMinRuntime,
		&wanted.CheckpointGrace: live.CheckpointGrace, &wanted.MaxCheckpointGrace: live.MaxCheckpointGrace,
	} {
		if long, err := time.ParseDuration(says); err == nil {
			*to = &long
		}
	}
	if share, err := resource.ParseQuantity(live.GPUShare); err == nil {
		wanted.GPUShare = &share
	}
}

// poolOptions returns the options for writing a pool with its GPUPool.
func (spec *PoolSpec) poolOptions(wanted *workload.Pool) submit.PoolOptions {
	return submit.PoolOptions{
		Force: spec.Force, Overwrite: spec.Overwrite, DryRun: spec.DryRun, Declare: wanted, TakeOver: spec.Force,
		KeepDeclared: spec.Constraints == nil && spec.Access == nil && spec.YAMLContent == "",
	}
}
