package gpuquota

// Use is how much of a quota is in use.
type Use struct {
	Quota
	// Used is what pods hold, and Borrowed the part of it that is not guaranteed: it goes back to others who are guaranteed it.
	Used, Borrowed int64
}

// Uses are those of all quotas, in the order of the quotas.
func (a *Account) Uses() []Use {
	out := make([]Use, len(a.quotas))
	for i, t := range a.quotas {
		out[i] = Use{Quota: t.Quota, Used: t.used}
		for _, e := range t.pods {
			if a.guaranteed[t.Pool] && !e.Waits && a.Borrows(e.Pod) {
				out[i].Borrowed += e.GPUs
			}
		}
	}
	return out
}
