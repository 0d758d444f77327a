package gpuquota

// Use is the usage of a quota.
type Use struct {
	Quota
	// Used is what pods hold, and Borrowed the part that is not guaranteed: it returns to others with a guarantee.
	Used, Borrowed int64
}

// QuotaUses returns the usage of all quotas, in their order.
func (a *Account) QuotaUses() []Use {
	out := make([]Use, len(a.quotas))
	for i, t := range a.quotas {
		out[i] = Use{Quota: t.Quota, Used: t.used}
		for _, e := range t.pods {
			if a.guaranteed[t.Pool] && !e.Waits && a.IsBorrowing(e.Pod) {
				out[i].Borrowed += e.GPUs
			}
		}
	}
	return out
}
