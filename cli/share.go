package cli

import (
	"cmp"
	"context"
	"slices"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// fillGPUShares fills in the GPU share of the pool for jobs that do not specify one, and prints a note. Without a cluster it uses only the pools
// in the files.
func (m *manifests) fillGPUShares(ctx context.Context, docs []submission) ([]submission, error) {
	if !slices.ContainsFunc(docs, func(s submission) bool { return jobplan.TakesShare(s.Document) }) {
		return docs, nil
	}
	var pools []names.GPUPool
	if !m.offline {
		client, err := m.factory.newKubernetesClient()
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
		if !jobplan.TakesShare(out[i].Document) {
			continue
		}
		pool := out[i].Job.Resources.Pool
		given := shares
		share, kept, err := m.keptShare(ctx, out[i].Document)
		if err != nil {
			return nil, err
		}
		if kept {
			given = map[string]string{pool: share}
		}
		filled, share, err := jobplan.FillPoolShare(out[i].Document, given)
		if err != nil {
			return nil, usageErrorf("%s%w; nothing was done", out[i].positionPrefix(), err)
		}
		out[i].Document = filled
		if note := jobplan.ShareNote(pool, share, shares[pool]); len(note) > 0 {
			m.factory.IO.printErr("%snote: %s", out[i].positionPrefix(), note)
		}
	}
	return out, nil
}

// keptShare returns the pool's share that an existing job has and keeps.
func (m *manifests) keptShare(ctx context.Context, doc workload.Document) (share string, kept bool, err error) {
	if !m.mayExist {
		return "", false, nil
	}
	namespace, err := m.factory.currentNamespace()
	if err != nil {
		return "", false, err
	}
	writer, err := m.factory.newWriter()
	if err != nil {
		return "", false, err
	}
	ref := submit.Ref{Namespace: cmp.Or(doc.Namespace, namespace), Name: doc.Name, Kind: string(doc.Kind)}
	live, err := writer.DocumentIfExists(ctx, ref)
	if err != nil {
		return "", false, err
	}
	share, kept = jobplan.KeptShare(live, doc)
	return share, kept, nil
}

func documentsOf(docs []submission) []workload.Document {
	out := make([]workload.Document, len(docs))
	for i := range docs {
		out[i] = docs[i].Document
	}
	return out
}
