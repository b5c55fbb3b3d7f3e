/* The part of fault-at.c that changes netlink messages, in `datagram`. */
/* Calls f(message, with) for each message of the datagram. */
static void each_message(size_t length, void (*f)(struct nlmsghdr *, struct socket *), struct socket *with) {
    for (size_t at = 0; at + sizeof(struct nlmsghdr) <= length;) {
        struct nlmsghdr *message = (void *)(datagram + at);
        if (message->nlmsg_len < sizeof *message || message->nlmsg_len > length - at) return;
        f(message, with);
        at += NLMSG_ALIGN(message->nlmsg_len);
    }
}

static void note_sequence(struct nlmsghdr *message, struct socket *socket) {
    if (socket->first == 0) socket->first = message->nlmsg_seq;
    socket->last = message->nlmsg_seq;
}

/*
 * Replaces the type of a request by one that no kernel knows. Keeps the first and the last message of an nf_tables
 * batch.
 */
static void spoil(struct nlmsghdr *message, struct socket *socket) {
    if (!socket->filter) message->nlmsg_type = 0x3fff;
    else if (message->nlmsg_type >= 0x100) message->nlmsg_type |= 0xff;
}

/* Replaces the kernel's answer by the error. */
static void refuse(struct nlmsghdr *message, struct socket *socket) {
    struct nlmsgerr *answer = NLMSG_DATA(message);
    if (message->nlmsg_type != NLMSG_ERROR || message->nlmsg_seq < socket->first || message->nlmsg_seq > socket->last) return;
    answer->error = (int)-socket->fate->error;
}

static void mark_changed(struct nlmsghdr *message, struct socket *socket) {
    (void)socket;
    if (message->nlmsg_flags & NLM_F_MULTI) message->nlmsg_flags |= NLM_F_DUMP_INTR;
}

static void renumber(struct nlmsghdr *message, struct socket *socket) {
    (void)socket;
    message->nlmsg_seq += 1000;
}

/* Changes an answer at the end of recvfrom(2): the content of the program's buffer, and its length. */
static void tamper(registers *regs, struct socket *socket, struct fault *fault) {
    size_t room = regs->rdx < DATAGRAM_MAX ? regs->rdx : DATAGRAM_MAX, length = regs->rax;
    if (copy_in(regs->rsi, datagram, length < room ? length : room) == 0) return;
    if (length > room) length = room;
    if (is(fault, "refuse") || is(fault, "lie")) {
        struct nlmsghdr *message = (void *)datagram;
        if (is(fault, "lie") && message->nlmsg_type != NLMSG_ERROR && length >= 36) { /* an answer, or the beginning of a list */
            struct nlmsghdr asked = *message;
            *message = (struct nlmsghdr){36, NLMSG_ERROR, 0, message->nlmsg_seq, message->nlmsg_pid};
            memset(datagram + 16, 0, 20);
            memcpy(datagram + 20, &asked, sizeof asked);
            regs->rax = length = 36;
        }
        each_message(length, refuse, socket);
    }
    if (is(fault, "changed") || is(fault, "changing")) each_message(length, mark_changed, socket);
    if (is(fault, "stray")) each_message(length, renumber, socket);
    if (is(fault, "short")) regs->rax = length / 2 | 1;
    copy_out(regs->rsi, datagram, length);
}
