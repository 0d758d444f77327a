//go:build !linux

package command

// runInBackground changes nothing where the servers that run simulations do not run.
func runInBackground() error { return nil }
