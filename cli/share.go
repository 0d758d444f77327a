package cli

import (
	"context"
	"fmt"
	"slices"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// share gives jobs that leave it to their pool how much of their GPUs they get what it gives, and says so. Without a cluster that
// is what the files themselves say of pools.
func (m *manifests) share(ctx context.Context, docs []submission) ([]submission, error) {
	if !slices.ContainsFunc(docs, func(s submission) bool { return jobplan.TakesShare(s.Document) }) {
		return docs, nil
	}
	var pools []names.GPUPool
	if !m.offline {
		client, err := m.factory.kubernetes()
		if err != nil {
			return nil, err
		}
		read, err := snapshot.Read(ctx, client, snapshot.GPUPools())
		if err != nil {
			return nil, err
		}
		pools = read.GPUPools
	}
	shares := jobplan.PoolShares(pools, documentsOf(docs))
	out := slices.Clone(docs)
	for i := range out {
		filled, share, err := jobplan.Shared(out[i].Document, shares)
		if err != nil {
			return nil, usagef("%s%w; nothing was done", out[i].at(), err)
		}
		if out[i].Document = filled; share != "" {
			fmt.Fprintf(m.factory.IO.ErrOut, "%snote: pool %s gives its jobs gpu-share: %s; gpu-share: 0 asks for whole GPUs\n",
				out[i].at(), filled.Job.Resources.Pool, share)
		}
	}
	return out, nil
}

func documentsOf(docs []submission) []workload.Document {
	out := make([]workload.Document, len(docs))
	for i := range docs {
		out[i] = docs[i].Document
	}
	return out
}
