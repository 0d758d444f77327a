// Package preemption is what happens to pods that leave for others, beside the choice of them: a dry run of the filters before, notices for those
// that have time to save their work, the writes to the API server, and the memory of who is leaving and who comes back.
package preemption
