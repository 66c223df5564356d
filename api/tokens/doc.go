// Package tokens decides which requests are allowed. The package reads the tokens file, checks the
// Authorization header of a request against the file, and limits how often the requests of each
// name are let through.
//
// # The file
//
// A line is a token; a comment begins with a word that starts with #:
//
//	# name  roles       hash of the token       at most this often
//	orders  write       sha256:<64 hex digits>  rate=200 burst=400
//	orders  write       sha256:<64 hex digits>  rate=200 burst=400  # its successor
//	grafana read        sha256:<64 hex digits>
//	ops     admin       sha256:<64 hex digits>
//	shop    write       sha256:<64 hex digits>  prefix=shop.
//
// Roles are a ladder ([Role]). If a line has several roles, separated by commas, the highest counts.
// Lines with the same name are tokens that are valid at the same time, as a rotation needs: add the
// new token, change the clients, remove the old token. All lines of a name must agree except in the
// hash, and share the same rate.
//
// rate is in requests per second, decimals allowed. burst is how many requests may come at once, by
// default a second's worth and at least one. A name without a rate is not limited. The rate holds
// for each node: behind n nodes a name gets up to n times as much. A request that is refused for
// its role does not count towards the rate.
//
// A token with a prefix is for the timers whose keys begin with the prefix, and for no other timers:
// [Decision] has the prefix, and the caller of Check holds the request to the prefix. A token with a
// prefix can't have the role admin, since an admin operates the whole cluster.
//
// # Tokens
//
// A token is chr_ and 256 random bits as 43 characters of base64url. [Generate] makes the token
// with the line for the file; the file holds only the token's SHA-256. A slow, salted hash as for
// passwords would bring nothing. Slow hashes make guessing expensive, and 256 random bits are
// beyond guessing even if a try is cheap. For the same reason wrong tokens aren't counted by
// source.
//
// A text without the form of a token is refused before hashing. A weak self-made secret therefore
// never works, even if its hash is put into the file. A try costs at most the hashing of 47 bytes
// and a comparison with each line.
//
// The comparison checks the whole hash against every line and takes equally long whether or not a
// line agrees. A map would be safe too: the time would at most show bits of a hash, and nobody can
// derive a token from a hash. But the files are short, and the comparison needs no such argument.
package tokens
