package server

import (
	"context"

	"g8s.host/gpu-scheduler/pkg/workload"
)

// requestedPool returns the wanted state of a pool from the fields of a request or from its document. The name comes from the fields or the path.
func (s *Server) requestedPool(ctx context.Context, spec *PoolSpec, name string) (*workload.Pool, error) {
	if spec.YAMLContent == "" {
		if len(spec.Nodes) == 0 {
			return nil, invalidErrorf("nodes is missing: a pool is its nodes. Give nodes, or a document of the kind pool in yamlContent")
		}
		return spec.buildPool(name)
	}
	if len(spec.Nodes) > 0 || len(spec.GPUType) > 0 || spec.Description != "" || spec.Constraints != nil || spec.Access != nil {
		return nil, invalidErrorf("yamlContent says all about the pool: leave out description, nodes, gpuType, constraints and access")
	}
	doc, err := s.parseOne(ctx, spec.YAMLContent, "pool", func(doc document) bool { return doc.Pool != nil })
	switch {
	case err != nil:
		return nil, err
	case name != "" && doc.Name != name:
		return nil, invalidErrorf("the document is of pool %q, and the request of %q", doc.Name, name)
	case len(doc.Pool.Nodes) == 0:
		return nil, invalidErrorf("the document names no nodes: a pool is its nodes")
	}
	return doc.Pool, nil
}
