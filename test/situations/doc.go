// Package situations has the situations in which a job does not run as data, testdata, for tests of all that says why: gpuctl why names every cause in the
// order in which they have to be mended, with advice that works, and says nothing that is not so; lists, the queue and REST say the same code for one
// cause. It is pure: the situations are objects as the API server has them. test/integration/why makes such situations on a real API server.
package situations
